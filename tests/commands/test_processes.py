"""Commands as processes of their own: exit codes, one JSON object, no secret shown."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from orders.models import Deal
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.sellers.models import Seller
from tests.commands.running import run
from tests.database import Database
from tests.factories import make_deal
from tests.fake_seller.driver import FakeSeller

COMMANDS = ("add_seller", "submit_brief", "decide", "api_token", "reconcile", "sweep", "verify_audit")


def test_add_seller_prints_what_it_can_do_and_no_secret(
    committed_db: Database, faulty: FakeSeller, tmp_path: Path
) -> None:
    kept = tmp_path / "token"
    kept.write_text(f"{faulty.token}\n")

    ran = run(
        "add_seller", "Norrland Digital", faulty.url, "--protocol", "mcp", "--token-file", str(kept),
        "--webhooks", "hmac", "--allow-private", "--slots", "3", "--json",
    )  # fmt: skip

    seller = Seller.objects.get()
    assert ran.code == 0, ran.err
    assert ran.json["seller"] == seller.slug == "norrland-digital"
    assert ran.json["adcp_version"] == "3.2"
    assert {"can be booked", "can be polled", "can be reconciled"} <= set(ran.json["can"])
    assert "can change a media buy" in ran.json["cannot"]
    assert (seller.token, seller.slots, seller.webhook_mode) == (faulty.token, 3, "hmac")
    assert seller.webhook_secret
    for secret in (faulty.token, seller.webhook_secret):
        assert secret not in ran.out + ran.err


def test_verify_audit_finds_an_edited_entry(committed_db: Database) -> None:
    deal = make_deal()
    whole = run("verify_audit", "--json")
    _edit_trail(committed_db, deal)

    broken = run("verify_audit", "--json")

    assert whole.code == 0, whole.err
    assert whole.json["ok"]
    assert whole.json["entries"] == AuditEntry.objects.count()
    assert broken.code == 1
    assert [found["id"] for found in broken.json["problems"]] == [str(deal.pk)]


def _edit_trail(database: Database, deal: Deal) -> None:
    """As only the owner of the schema can, with its triggers off."""
    with psycopg.connect(database.urls.owner) as owner:
        owner.execute("alter table tasks_app_auditentry disable trigger all")
        owner.execute("update tasks_app_auditentry set reason = 'edited' where entity_id = %s", [deal.pk])
        owner.execute("alter table tasks_app_auditentry enable trigger all")


@pytest.mark.parametrize("name", COMMANDS)
def test_help_names_the_exit_codes(name: str) -> None:
    ran = run(name, "--help")

    assert ran.code == 0
    assert "--json" in ran.out
    assert "Exit code 0" in ran.out


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("decide", "APR-1", "perhaps", "--as", "x"), "argument ACT: invalid choice: 'perhaps'"),
        (("add_seller",), "the following arguments are required: name, url, --protocol"),
        (("sweep", "--surprise"), "unrecognized arguments: --surprise"),
    ],
)
def test_wrong_arguments_exit_with_2_and_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    """Before anything is done: without a database, which would end with 2 as well, and say so."""
    monkeypatch.setenv("DATABASE_URL", f"postgresql://flightdeck@/flightdeck?host={tmp_path}")

    ran = run(*arguments)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"usage: manage.py {arguments[0]} ")
    assert why in ran.err.splitlines()[-1]


def test_a_database_that_is_away_exits_with_2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DATABASE_URL", f"postgresql://flightdeck:s3cret@/flightdeck?host={tmp_path}")

    ran = run("sweep", "--json")

    assert ran.code == 2
    assert "The database did not answer" in ran.json["error"]
    assert "s3cret" not in ran.out + ran.err
