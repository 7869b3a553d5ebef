"""The audit trail: what a viewer may see of it, one entity's chain verified, one entry whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.names import names_of
from tests.ui.pages import STAFF, ClientOf, list_of, page_of, read, stranger
from tests.ui.seed import Agency

TRAIL = list_of(AuditEntry)


@pytest.mark.parametrize("role", STAFF)
def test_list_and_entries_render_for_every_role_with_few_queries(
    agency: Agency, client_of: ClientOf, django_assert_max_num_queries: Any, role: str
) -> None:
    client = client_of(role)
    entries = AuditEntry.objects.filter(entity_type__in=("deal", "step", "operation"))[:5]
    deal = agency.deals["halvorsen"].reference
    for address in (
        TRAIL,
        f"{TRAIL}?reference={deal}",
        f"{TRAIL}?entity=step",
        *(page_of(e) for e in entries),
    ):
        with django_assert_max_num_queries(25):
            assert client.get(address).status_code == 200, address


def test_another_team_sees_no_entry(agency: Agency) -> None:
    client = stranger()
    assert "No entries" in read(client, TRAIL)
    deal = agency.deals["halvorsen"]
    page = read(client, f"{TRAIL}?reference={deal.reference}")
    assert f"There is no {deal.reference} in your teams" in page
    assert "verified" not in page
    entry = AuditEntry.objects.filter(entity_id=deal.pk).first()
    assert entry is not None
    assert client.get(page_of(entry)).status_code in (302, 404)


def test_one_entitys_chain_is_listed_and_verified(
    agency: Agency, client_of: ClientOf, tamper: Callable[..., None]
) -> None:
    deal = agency.deals["lindqvist-norrland"]
    page = read(client_of("Auditor"), f"{TRAIL}?reference={deal.reference.lower()}")
    entries = AuditEntry.objects.filter(entity_id=deal.pk).count()
    assert f"{entries} of {entries} verified" in page
    assert "booking → booked" in page
    tamper(deal, version=9)
    page = read(client_of("Auditor"), f"{TRAIL}?reference={deal.reference}")
    assert "The trail does not hold" in page


def test_the_list_is_paged_by_key_without_counting(agency: Agency, client_of: ClientOf) -> None:
    client = client_of("Auditor")
    first = client.get(TRAIL).context
    seen = [row.pk for row in first["rows"]]
    assert seen == sorted(seen, reverse=True)
    following = [row.pk for row in client.get(f"{TRAIL}?{first['older']}").context["rows"]]
    assert max(following) < min(seen)
    newest = AuditEntry.objects.order_by("-pk").values_list("pk", flat=True)[: len(seen) + len(following)]
    assert seen + following == list(newest)


@pytest.mark.parametrize("query", ["before=abc", f"before={'9' * 40}", "reference=%00", "entity=nonsense"])
def test_parameters_from_outside_are_harmless(agency: Agency, client_of: ClientOf, query: str) -> None:
    assert client_of("Auditor").get(f"{TRAIL}?{query}").status_code == 200


def test_an_entry_shows_what_was_written(agency: Agency, client_of: ClientOf) -> None:
    deal = agency.deals["lindqvist-norrland"]
    entry = AuditEntry.objects.get(entity_id=deal.pk, from_status="booking", to_status="booked")
    page = read(client_of("Auditor"), page_of(entry))
    assert bytes(entry.hash).hex() in page
    assert bytes(entry.prev_hash).hex() in page
    assert "agent:norrland" in page
    assert "media_buy_id" in page
    assert "nrl-58213" in page


def test_nobody_may_add_change_or_delete_an_entry(agency: Agency, client_of: ClientOf) -> None:
    entry = AuditEntry.objects.first()
    assert entry is not None
    client = client_of("Administrator")
    assert client.post(page_of(entry), {"reason": "rewritten"}).status_code == 405
    assert client.get(f"{TRAIL}add/").status_code == 403
    assert client.post(f"{TRAIL}{entry.pk}/delete/", {"post": "yes"}).status_code == 403
    assert AuditEntry.objects.filter(pk=entry.pk, reason=entry.reason).exists()


def test_entities_are_named_by_the_storey_that_knows_them(agency: Agency) -> None:
    deal = agency.deals["lindqvist-norrland"]
    name = names_of("deal", [deal.pk])[deal.pk]
    assert (name.reference, str(name), name.part_of) == (
        deal.reference,
        "Norrland Digital",
        "Lindqvist Cold Brew",
    )
    assert name.link == page_of(deal)
    assert names_of("nothing", [deal.pk]) == {}
