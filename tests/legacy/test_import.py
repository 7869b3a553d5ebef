"""import_ad_buyer: what becomes of deals, campaigns and jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from campaigns.models import Campaign
from orders.models import Deal
from tasks_app.alike import alike
from tasks_app.events.bus import event_of
from tasks_app.lifecycle.models import Import as ImportRow
from tasks_app.lifecycle.models import OutboxEvent
from tasks_app.lifecycle.transitions import transition
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.people.actors import actor_key
from tasks_app.people.models import Advertiser, User
from tasks_app.sellers.models import Seller
from tasks_app.sellers.trust import row_change
from tests.commands.running import call
from tests.factories import make_advertiser, make_seller, make_team, make_user
from tests.legacy.buyer import FIRST_DEALS, MOMENT, Buyer
from tests.legacy.conftest import Import
from tests.lifecycle.entities import trail

pytestmark = pytest.mark.django_db

BOOKED = ("quoted", "accepted", "booking", "booked")


@pytest.mark.parametrize("said", [(), ("--advertiser", "lindqvist.example")])
@pytest.mark.parametrize("told", ["lindqvist.example", "Lindqvist.Example"])
def test_a_name_that_two_advertisers_have_is_refused(
    buyer: Buyer, bring: Import, said: tuple[str, ...], told: str
) -> None:
    Advertiser.objects.filter(pk__in=[make_advertiser("Lindqvist Tea").pk, make_advertiser().pk]).update(
        brand_domain="lindqvist.example"
    )
    buyer.deal("deal-1", "quoted", advertiser=told)
    ran = bring(*said)
    assert Deal.objects.count() == 0
    assert "several advertisers" in str(ran.json) + ran.err if said else "is no advertiser" in str(ran.json)


def test_a_deal_with_its_line_seller_and_advertiser(buyer: Buyer, bring: Import, admin: User) -> None:
    buyer.deal("deal-1", "quoted", "negotiating", seller_org="Norrland Digital", seller_deal_id="ND-7")

    ran = bring("--zone", "America/New_York")

    assert ran.code == 0, ran.err
    deal = Deal.objects.get()
    assert ran.json["imported"] == [
        {
            "table": "deals",
            "id": "deal-1",
            "reference": deal.reference,
            "status": "negotiating",
            "history": "replayed",
            "notes": [],
        }
    ]
    assert (deal.status, deal.version, deal.currency) == ("negotiating", 2, "USD")
    assert (deal.team.name, deal.advertiser.name) == ("Halden & Marsh", "Lindqvist Coffee")
    assert (deal.requested_by, deal.media_buy_id) == (actor_key(admin), "ND-7")
    assert deal.created_at == datetime(2026, 5, 1, 10, tzinfo=UTC)
    assert deal.start_at == datetime(2026, 6, 1, 4, tzinfo=UTC)
    assert deal.end_at == datetime(2026, 7, 1, 4, tzinfo=UTC)
    assert deal.terms["imported"]["id"] == "deal-1"
    assert deal.terms["imported"]["row"]["price"] == "14.2"
    seller = Seller.objects.get()
    assert ran.json["new_sellers"] == ["norrland-digital"]
    assert (seller.active, seller.url) == (False, "https://norrland.example.com/mcp")
    line = deal.lines.get()
    assert (line.channel, line.product_id, line.product_name) == ("", "prod-olv", "Pre-roll, news")
    assert (line.pricing_model, line.rate, line.units) == ("cpm", Decimal("14.2"), Decimal(1_000_000))
    assert (line.budget, line.is_fixed, line.guaranteed) == (Decimal(14_200), True, False)


def test_a_legal_history_is_replayed_and_marked(buyer: Buyer, bring: Import, admin: User) -> None:
    buyer.deal("deal-1", "quoted", "negotiating", "quoted", "cancelled")

    assert bring().code == 0

    deal, import_row = Deal.objects.get(), ImportRow.objects.get()
    born, *moves = trail(deal)
    assert (born.actor, born.reason) == (actor_key(admin), "Imported from ad_buyer")
    assert [(e.from_status, e.to_status) for e in moves] == [
        ("quoted", "negotiating"), ("negotiating", "quoted"), ("quoted", "cancelled"),
    ]  # fmt: skip
    for entry in (born, *moves):
        assert entry.metadata["imported"] is True
        assert entry.metadata["import"] == str(import_row.pk)
    assert {entry.actor for entry in moves} == {"system"}
    assert moves[0].reason == "to negotiating"
    assert moves[0].metadata["history"] == [
        {"from": "quoted", "to": "negotiating", "at": "2026-05-01T10:00:00.000Z", "actor": "agent",
         "reason": "to negotiating"}
    ]  # fmt: skip
    assert verify_entity("deal", deal.pk).ok


def test_events_of_an_import_say_so(buyer: Buyer, bring: Import) -> None:
    """Who acts on events must not act on history."""
    buyer.deal("deal-1", "quoted", "negotiating")
    buyer.deal("deal-2", *BOOKED)
    assert bring().code == 0
    deal = Deal.objects.get(status="negotiating")
    transition(deal, "accepted", actor="system")

    *brought, ours = OutboxEvent.objects.order_by("id")

    assert [(e.seq, e.payload["to"]) for e in brought] == [(1, "quoted"), (2, "negotiating"), (1, "booked")]
    assert all(e.payload["imported"] is True for e in brought)
    assert "imported" not in ours.payload
    for number, row in enumerate((*brought, ours), start=1):
        row.position = number
        assert event_of(row).imported is (row != ours)


@pytest.mark.parametrize(
    ("history", "status"),
    [
        (BOOKED, "booked"),  # our guards ask for an approval and an account
        (("draft", "quoted", "accepted"), "accepted"),
        (("quoted", "completed"), "completed"),
        (("booked",), "booked"),
        (("quoted", "quoted", "accepted"), "accepted"),
        (("quoted", "accepted"), "booked"),
        ((), "expired"),
        ((), "quoted"),
    ],
)
def test_any_other_history_is_kept_as_told(
    buyer: Buyer, bring: Import, history: tuple[str, ...], status: str
) -> None:
    buyer.deal("deal-1", *history, **({} if history and history[-1] == status else {"status": status}))

    ran = bring()

    assert ran.code == 0, ran.err
    assert ran.json["imported"][0]["history"] == "kept as told"
    deal = Deal.objects.get()
    assert (deal.status, deal.version) == (status, 1)
    (entry,) = trail(deal)
    assert (entry.from_status, entry.to_status) == ("", status)
    assert entry.metadata["imported"] is True
    assert [told["to"] for told in entry.metadata["history"]] == list(history)
    assert verify_entity("deal", deal.pk).ok


def test_dsp_flow_statuses_are_mapped_and_still_told(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", "initialized", "evaluating_pricing")

    assert bring().code == 0

    deal = Deal.objects.get()
    assert deal.status == "negotiating"
    assert trail(deal)[1].metadata["history"][0]["told"] == ["initialized", "evaluating_pricing"]


def test_unknown_statuses_are_listed_with_the_known_and_never_guessed(buyer: Buyer, bring: Import) -> None:
    for number, status in enumerate(["draft", "active", "draft", "Quoted", "quoted ", "quoted"]):
        buyer.deal(f"deal-{number}", status)
    buyer.campaign(status="ready")

    ran = bring()

    assert ran.code == 1
    assert [one["id"] for one in ran.json["imported"]] == ["deal-5"]
    assert ran.json["unknown_statuses"]["deals"]["found"] == {
        "draft": 2, "active": 1, "Quoted": 1, "quoted ": 1,
    }  # fmt: skip
    assert "makegood_pending" in ran.json["unknown_statuses"]["deals"]["known"]
    assert "evaluating_pricing" in ran.json["unknown_statuses"]["deals"]["known"]
    assert ran.json["unknown_statuses"]["campaigns"]["found"] == {"ready": 1}
    assert Deal.objects.count() == 1
    assert not Campaign.objects.exists()


def test_unknown_statuses_of_a_history_are_noted(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", "draft", "active", "quoted")
    (one,) = bring().json["imported"]
    assert one["notes"] == ["its history has statuses that are unknown here: active, draft"]


def test_booking_records_become_lines(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", "quoted", media_type="CTV", deal_type="PG", price_model="CPM", fixed_price_cpm=20)
    buyer.add("booking_records", deal_id="deal-1", line_id="L1", channel="ctv", impressions=500, cost=10.5)
    buyer.add("booking_records", deal_id="deal-1", line_id="L2", channel="branding", impressions=9, cost=3)
    buyer.add("booking_records", deal_id="deal-1", line_id="L3", channel="ctv", cost=0)

    (one,) = bring().json["imported"]

    lines = list(Deal.objects.get().lines.all())
    assert [(o.position, o.package_id, o.channel, o.budget, o.units) for o in lines] == [
        (1, "L1", "ctv", Decimal("10.5"), Decimal(500)),
        (2, "L2", "branding", Decimal(3), Decimal(9)),
    ]
    assert all(line.guaranteed and line.rate == 20 for line in lines)
    assert any("'branding' is none of AdCP's" in note for note in one["notes"])
    assert any(note.startswith("no line:") for note in one["notes"])


@pytest.mark.parametrize("state", ["cancelled", "Failed", "rejected", "voided", "withdrawn"])
def test_a_booking_that_came_to_nothing_is_no_line(buyer: Buyer, bring: Import, state: str) -> None:
    buyer.deal("deal-1", "quoted")
    for number, told in enumerate(("booked", state, "half-way")):
        buyer.add(
            "booking_records",
            deal_id="deal-1",
            line_id=f"L{number}",
            channel="ctv",
            cost=10,
            booking_status=told,
        )
    (one,) = bring().json["imported"]
    assert [line.package_id for line in Deal.objects.get().lines.order_by("position")] == ["L0", "L2"]
    assert f"no line: booking record: {state.lower()}" in one["notes"]
    (record,) = Deal.objects.get().terms["imported"]["not_bought"]
    assert (record["line_id"], record["booking_status"]) == ("L1", state)
    assert any("'half-way' is none that is known; kept as bought" in note for note in one["notes"])


@pytest.mark.parametrize(
    ("cost", "budget", "noted"),
    [
        (114.99999999999999, "115", False),
        (0.1 + 0.2, "0.3", False),
        (1.005, "1.00", True),
        (10.5, "10.5", False),
    ],
)
def test_a_sum_of_floats_is_what_it_means(
    buyer: Buyer, bring: Import, cost: float, budget: str, noted: bool
) -> None:
    """A cent less would be booked differently for ever; what is cut is told."""
    buyer.deal("deal-1", "quoted")
    buyer.add("booking_records", deal_id="deal-1", line_id="L1", channel="ctv", cost=cost)
    (one,) = bring().json["imported"]
    assert Deal.objects.get().lines.get().budget == Decimal(budget)
    assert any("finer than the currency" in note for note in one["notes"]) == noted


def test_a_deal_that_was_cancelled_keeps_what_was_at_stake(buyer: Buyer, bring: Import) -> None:
    """What of it cannot be read refuses it not: nothing was bought."""
    buyer.deal("deal-1", "cancelled")
    for number, cost in enumerate((10, "ten", 1e15)):
        told = {"line_id": f"L{number}", "channel": "ctv", "booking_status": "cancelled"}
        buyer.add("booking_records", deal_id="deal-1", cost=cost, **told)
    bring()
    deal = Deal.objects.get()
    assert [line.budget for line in deal.lines.all()] == [10]
    assert [one["line_id"] for one in deal.terms["imported"]["not_bought"]] == ["L1", "L2"]


@pytest.mark.parametrize(
    ("told", "budget"),
    [
        (114.99999999999999, 115),
        (sum([9_999_999.1] * 3), Decimal("29999997.3")),
        (sum([1_234_567.89] * 80), Decimal("98765431.2")),
        (1.00005, None),
        (98_765_431.00005, None),
    ],
)
def test_a_campaigns_budget_of_floats_is_kept(
    buyer: Buyer, bring: Import, told: float, budget: Decimal | None
) -> None:
    buyer.campaign(total_budget=told)
    bring()
    assert Campaign.objects.get().budget == budget


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cost": "a lot"}, "cost"),
        ({"cost": -5}, "cost"),
        ({"cost": 5, "impressions": "many"}, "impressions"),
        ({"cost": 5, "channel": b"\xff"}, "channel"),
        ({"cost": 5, "line_id": "L" * 300}, "line_id"),
        ({"cost": 10**13}, "cost"),
    ],
)
def test_a_deal_of_which_a_booking_cannot_be_read_is_refused(
    buyer: Buyer, bring: Import, fields: dict[str, Any], field: str
) -> None:
    """It would stand for less than was booked, and room and ceilings with it."""
    buyer.deal("deal-1", "quoted", advertiser="Lindqvist Coffee")
    buyer.add("booking_records", deal_id="deal-1", line_id="L1", channel="ctv", impressions=500, cost=10.5)
    buyer.add("booking_records", **{"deal_id": "deal-1", "line_id": "L2", "channel": "ctv", **fields})
    (refused,) = bring().json["not_imported"]
    assert [problem["field"] for problem in refused["problems"]] == [f"booking_records.{field}"]
    assert not Deal.objects.exists()


def test_a_deal_of_unknown_basis_with_something_booked_is_refused(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", "quoted", advertiser="Lindqvist Coffee", price_model="HYBRID")
    buyer.add("booking_records", deal_id="deal-1", line_id="L1", channel="ctv", cost=10.5)
    (refused,) = bring().json["not_imported"]
    assert [problem["field"] for problem in refused["problems"]] == ["price_model"]


@pytest.mark.parametrize(
    ("fields", "basis", "budget"),
    [
        ({"price": 14.2, "impressions": 1000}, "cpm", "14.20"),
        ({"price": 1.005, "impressions": 1000}, "cpm", "1.00"),
        ({"price_model": "FLAT", "price": 5000, "impressions": None}, "flat_rate", "5000"),
        ({"price_model": "CPP", "cpp": 250.5, "guaranteed_grps": 40}, "cpp", "10020"),
        ({"deal_type": "PA", "bid_floor_cpm": 5, "price": 9, "impressions": 2000}, "cpm", "10"),
        ({"currency": "JPY", "price": 900.5, "impressions": 1001}, "cpm", "901"),
    ],
)
def test_prices_by_their_basis(
    buyer: Buyer, bring: Import, fields: dict[str, Any], basis: str, budget: str
) -> None:
    buyer.deal("deal-1", "quoted", **fields)
    assert bring().code == 0
    line = Deal.objects.get().lines.get()
    assert (line.pricing_model, line.budget) == (basis, Decimal(budget))
    assert line.is_fixed is (fields.get("deal_type") != "PA")


@pytest.mark.parametrize(
    "fields",
    [
        {"price": None},
        {"impressions": None},
        {"impressions": 0},
        {"price": -1},
        {"price": "free"},
        {"price": 9e999},
        {"price": 10**12, "impressions": 2**62},
        {"price_model": "HYBRID"},
    ],
)
def test_a_deal_whose_amount_cannot_be_told_comes_without_a_line(
    buyer: Buyer, bring: Import, fields: dict[str, Any]
) -> None:
    buyer.deal("deal-1", "quoted", **fields)
    (one,) = bring().json["imported"]
    assert one["notes"][0].startswith("no line:")
    assert not Deal.objects.get().lines.exists()


def test_campaigns_and_jobs_become_campaigns(buyer: Buyer, bring: Import) -> None:
    buyer.campaign()
    buyer.add(
        "campaign_events", event_id="e1", campaign_id="camp-1", event_type="campaign.created",
        timestamp=MOMENT, to_status="draft",
    )  # fmt: skip
    buyer.job()

    ran = bring()

    assert ran.code == 0, ran.err
    first, second = Campaign.objects.order_by("name")
    assert (first.name, first.status, first.budget) == ("Autumn roast", "completed", Decimal("250000.5"))
    assert first.advertiser is not None
    assert (first.currency, first.brief["imported"]["id"]) == ("USD", "camp-1")
    assert trail(first)[0].metadata["history"][0]["to"] == "draft"
    assert (second.name, second.status, second.budget) == ("Spring", "failed", Decimal("1000.25"))
    assert (second.currency, second.advertiser) == ("", None)
    assert second.start_at == datetime(2026, 6, 1, tzinfo=UTC)


def test_a_campaigns_columns_that_do_not_fit_are_left_empty_and_noted(buyer: Buyer, bring: Import) -> None:
    buyer.campaign(total_budget="much", currency="coffee", flight_end="2026-05-01")
    (one,) = bring().json["imported"]
    campaign = Campaign.objects.get()
    assert (campaign.budget, campaign.currency, campaign.start_at) == (None, "", None)
    assert len(one["notes"]) == 3


@pytest.mark.parametrize(
    ("told", "budget"),
    [
        ("1000.5", Decimal("1000.5")),
        ('"1000.5"', Decimal("1000.5")),
        ('"50,000.00"', Decimal(50_000)),
        ("50.125", Decimal("50.125")),
        ('"50.000"', None),
        ('"50,00"', None),
        ('"about 50"', None),
        ('""', None),
    ],
)
def test_a_jobs_budget_that_somebody_typed_is_read_as_every_other(
    buyer: Buyer, bring: Import, told: str, budget: Decimal | None
) -> None:
    """Where it could be two amounts, it is none."""
    buyer.job(brief=f'{{"name": "Spring", "budget": {told}}}')
    (one,) = bring().json["imported"]
    assert Campaign.objects.get().budget == budget
    assert ("budget is no number" in str(one["notes"])) is (budget is None)


def test_everything_else_is_listed(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", "quoted")
    buyer.add("deal_activations", deal_id="deal-1", platform="x")
    buyer.history("booking", "b-1", "pending", "booked")
    buyer.history("deal", "gone", "quoted")

    ran = bring()

    told = {(one["table"], one["rows"]): one["what"] for one in ran.json["other_tables"]}
    assert ran.code == 0, ran.err
    assert told["deal_activations", 1] == "no such thing here"
    assert told["status_transitions", 2] == "of bookings and others: no such thing here"
    assert told["status_transitions", 1] == "of deals and others that the database no longer has"
    assert told["portfolio_metadata", 1].startswith("for the advertisers")


def test_a_database_of_the_first_version_is_read(tmp_path: Path, admin: User, advertiser: object) -> None:
    gone = ("portfolio_metadata", "campaigns", "campaign_events", "jobs", "deal_activations")
    old = Buyer(tmp_path / "v1.db", without=gone, deals=FIRST_DEALS)
    old.deal("deal-1", "quoted", advertiser="")

    ran = call("import_ad_buyer", str(old.path), "--as", "vera", "--json", "--advertiser", "Lindqvist Coffee")

    assert ran.code == 0, ran.err
    assert ran.json["missing_tables"] == ["campaigns", "jobs"]
    assert Deal.objects.get().currency == "USD"


def test_sellers_are_known_by_their_address(buyer: Buyer, bring: Import) -> None:
    known = make_seller(url="https://norrland.example.com/mcp/", name="Norrland")
    make_seller(slug="espn", name="ESPN", url="https://other.example.com/")
    buyer.deal("deal-1", "quoted")
    buyer.deal("deal-2", "quoted", seller_url="https://espn.example.com", seller_org="ESPN")
    buyer.deal("deal-3", "quoted", seller_url="https://espn.example.com", seller_org="ESPN again")

    assert bring().code == 0

    sellers = [deal.seller for deal in Deal.objects.order_by("terms__imported__id")]
    assert sellers[0] == known
    assert sellers[1] == sellers[2]
    assert sellers[1].slug == "espn-espn-example-com"
    assert (sellers[1].active, known.active) == (False, True)


@pytest.mark.parametrize("told", ["ESPN", "espn ", "ES\u200bPN", "ＥＳＰＮ"], ids=ascii)
def test_a_seller_whose_name_looks_like_anothers_is_told_apart(
    buyer: Buyer, bring: Import, told: str
) -> None:
    make_seller("ESPN", url="https://other.example.com/")
    for number, path in enumerate(("a", "b")):
        url = f"https://espn.example.com/{path}"
        buyer.deal(f"deal-{number}", "quoted", seller_url=url, seller_org=told)
    assert bring().code == 0
    names = list(Seller.objects.order_by("created_at").values_list("name", flat=True))
    assert names[1] == f"{told.strip()} (espn.example.com)"
    assert len({alike(name) for name in names}) == 3


@pytest.mark.parametrize("told", ["!!!", "\u200b", "---"], ids=ascii)
def test_a_seller_that_is_called_nothing_readable_is_called_by_its_host(
    buyer: Buyer, bring: Import, told: str
) -> None:
    buyer.deal("deal-1", "quoted", seller_url="https://espn.example.com", seller_org=told, seller_domain="")
    assert bring().code == 0
    assert Seller.objects.get().name == "espn.example.com"


def test_an_imported_seller_with_deals_changes_by_name_and_with_a_second_person(
    buyer: Buyer, bring: Import, admin: User
) -> None:
    """What decides whom we believe; it was never on, so that one person switches it on."""
    buyer.deal("deal-1", "quoted")
    assert bring().code == 0
    seller = Seller.objects.get()
    with pytest.raises(ValidationError, match="--as"):
        row_change(row=seller, values={"token": "t"}, actor="system")
    made = row_change(row=seller, values={"token": "t", "active": True}, actor=admin)
    assert made.waiting is not None
    assert (made.changed, set(made.waiting.after)) == (["active"], {"token"})


def test_advertisers_are_mapped_as_told_and_never_guessed(buyer: Buyer, bring: Import) -> None:
    make_advertiser("Brandt Tea")
    make_advertiser("Elsewhere", team=make_team("Other"))
    buyer.deal("by-domain", "quoted", advertiser="lindqvist-coffee.com")
    buyer.deal("by-id", "quoted", advertiser="adv-001")
    buyer.deal("none", "quoted", advertiser="")
    buyer.deal("other-team", "quoted", advertiser="Elsewhere")

    first = bring()
    second = bring("--advertiser", "adv-001=Brandt Tea", "--advertiser", "Lindqvist Coffee")

    assert [one["id"] for one in first.json["imported"]] == ["by-domain"]
    assert "--advertiser adv-001=NAME" in first.json["not_imported"][0]["problems"][0]["problem"]
    assert [one["id"] for one in second.json["imported"]] == ["by-id", "none"]
    names = dict(Deal.objects.values_list("terms__imported__id", "advertiser__name"))
    assert names == {"by-domain": "Lindqvist Coffee", "by-id": "Brandt Tea", "none": "Lindqvist Coffee"}
    assert [one["id"] for one in second.json["not_imported"]] == ["other-team"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--as", "nobody"), "There is no user 'nobody'."),
        (("--as", "bo"), "may not add sellers"),
        (("--as", "vera", "--team", "Nobody's"), "has no team"),
        (("--as", "vera", "--zone", "Mars"), "no time zone"),
        (("--as", "vera", "--advertiser", "x=Unknown"), "has no advertiser 'Unknown'"),
        (("--as", "vera", "--advertiser", "=Lindqvist Coffee"), "has no advertiser"),
        (("--as", "vera", "--source", ""), "--source"),
    ],
)
def test_who_and_whose_must_be_right(
    buyer: Buyer, admin: User, advertiser: object, arguments: tuple[str, ...], said: str
) -> None:
    make_user("Buyer", name="bo")
    buyer.deal("deal-1", "quoted")
    ran = call("import_ad_buyer", str(buyer.path), *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert not Deal.objects.exists()


def test_a_user_of_two_teams_says_which(buyer: Buyer, bring: Import, admin: User) -> None:
    admin.teams.add(make_team("Second"))
    buyer.deal("deal-1", "quoted")
    assert "with --team" in bring().err
    assert bring("--team", "Halden & Marsh").code == 0


def test_people_read_what_happened(buyer: Buyer, bring: Import) -> None:
    buyer.deal("deal-1", *BOOKED)
    buyer.deal("deal-\x1b[31m", "draft")

    ran = call("import_ad_buyer", str(buyer.path), "--as", "vera")

    assert ran.code == 1
    assert "1 imported, 0 here already, 1 not imported." in ran.out
    assert "Unknown statuses in deals: 'draft' (1); known: quoted, negotiating" in ran.out
    assert "New sellers, to be added (add_seller) and switched on: norrland-example-com" in ran.out
    assert "\x1b" not in ran.out
