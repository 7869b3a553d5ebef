"""import_ad_buyer run again, tried, and recorded: it happens once."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from django.apps import apps

from orders.models import Deal
from tasks_app.lifecycle.models import Import as ImportRow
from tasks_app.people.actors import actor_key
from tasks_app.people.models import Actor, User
from tests.commands.running import call
from tests.legacy.buyer import Buyer
from tests.legacy.conftest import Import

pytestmark = pytest.mark.django_db
BOOKED = ("quoted", "accepted", "booking", "booked")


def counts() -> dict[str, int]:
    """How many rows every table of ours has."""
    return {m._meta.label: m._default_manager.count() for m in apps.get_models(include_auto_created=True)}


def test_a_second_run_imports_nothing_new(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", *BOOKED)
    buyer.deal("deal-2", "quoted", "negotiating")
    buyer.campaign()
    buyer.job()
    assert bring().code == 0
    before = counts()

    again = bring()

    assert again.code == 0
    assert (again.json["imported"], again.json["already_here"], again.json["import"]) == ([], 4, None)
    assert counts() == before


def test_a_later_run_brings_what_is_new_from_wherever_the_file_lies(
    buyer: Buyer, bring: Import, admin: User, tmp_path: Path
) -> None:
    buyer.deal("deal-1", "quoted")
    assert bring().code == 0
    buyer.deal("deal-2", "quoted")
    moved = buyer.path.rename(tmp_path / "elsewhere.db")

    ran = call("import_ad_buyer", str(moved), "--as", admin.username, "--json")

    assert [one["id"] for one in ran.json["imported"]] == ["deal-2"]
    assert ran.json["already_here"] == 1


def test_a_row_that_changed_since_stays_as_it_is_here_and_is_told(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", "quoted")
    assert bring().code == 0
    buyer.sql("update deals set status = 'cancelled', updated_at = '2026-05-02T10:00:00Z'")

    ran = bring()

    assert ran.code == 1
    assert "has changed since" in ran.json["not_imported"][0]["problems"][0]["problem"]
    assert Deal.objects.get().status == "quoted"


def test_the_same_ids_of_another_source_are_other_rows(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", "quoted")
    assert bring().code == 0
    assert bring("--source", "the other desk").code == 0
    assert Deal.objects.count() == 2


def test_a_dry_run_tells_the_same_and_changes_nothing(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", *BOOKED)
    buyer.deal("deal-2", "draft")
    buyer.campaign()
    Actor.objects.all().delete()
    before = counts()

    tried = bring("--dry-run")

    assert counts() == before
    assert tried.code == 1
    assert (tried.json["dry_run"], tried.json["import"]) == (True, None)
    done = bring().json
    for one in done["imported"]:
        one["reference"] = None
    for key in ("imported", "not_imported", "unknown_statuses", "new_sellers", "other_tables", "digest"):
        assert tried.json[key] == done[key]


def test_the_import_itself_is_recorded(buyer: Buyer, bring: Import, admin: User) -> None:
    buyer.deal("deal-1", "quoted")
    ran = bring()
    row = ImportRow.objects.get()
    digest = hashlib.sha256(buyer.path.read_bytes()).hexdigest()
    assert (str(row.pk), row.source, row.rows) == (ran.json["import"], "ad_buyer", 1)
    assert (row.actor, row.source_digest) == (actor_key(admin), digest)
