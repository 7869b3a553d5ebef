"""What an integrator’s purchase says that stands in no column, beside what its seller states that it booked:
every field of a purchase and of its packages is compared, or has a reason why not."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from orders.ask import Ask
from orders.last_words import _apart
from orders.models import Deal, DealLine, DealMirror
from orders.purchases import purchase_ask
from orders.seller_state import deal_follow
from orders.services import deal_book
from tasks_app import clock
from tasks_app.adcp import requests
from tasks_app.adcp.types import Seen
from tasks_app.approvals.models import Approval
from tasks_app.operations.dispatch import claim_one
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish
from tests.factories import approve_deal, make_account, make_advertiser, make_seller, make_user
from tests.operations.making import observed
from tests.orders.doors import wanted
from tests.orders.late import decide, fresh, overdue, paused, say
from tests.orders.test_answers_kept import let_go

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
Values = dict[str, Any]
_REVISIONS = count(2)
_TERMS = {"billing_measurement": {"vendor": {"domain": "counts.example"}, "max_variance_percent": 5}}
_GOALS = [{"kind": "metric", "metric": "clicks"}]
_INVOICED = {"name": "Acme Media Ltd", "address": {"city": "Oslo"}}

# Of the whole and of its one package: as it is bought, and as its seller states it otherwise.
WHOLE: dict[str, tuple[Any, Any]] = {
    "name": ("Spring flight", "Autumn flight"),
    "pacing": ("even", "asap"),
    "paused": (True, False),
    "agency_estimate_number": ("EST-WHOLE", "EST-OTHER"),
    "invoice_recipient": (_INVOICED, {**_INVOICED, "address": {"city": "Valletta"}}),
}
PACKAGE: dict[str, tuple[Any, Any]] = {
    "pacing": ("even", "front_loaded"),
    "paused": (True, False),
    "impressions": (77_000, 40_000),
    "agency_estimate_number": ("EST-1", "EST-2"),
    "measurement_terms": (_TERMS, {"billing_measurement": {"vendor": {"domain": "counts.example"}}}),
    "optimization_goals": (_GOALS, [{"kind": "metric", "metric": "views"}]),
}
WORDS = [*(("whole", field) for field in WHOLE), *(("package", field) for field in PACKAGE)]
# What is compared by columns of the deal and its lines, and what is not, and why.
COLUMNS = {
    requests.CreateMediaBuy: {"start_time", "end_time", "packages", "total_budget"},
    requests.PackageRequest: {
        *("product_id", "pricing_option_id", "budget", "bid_price"),
        *("start_time", "end_time", "targeting_overlay"),
    },
}
NOT_COMPARED: dict[Any, dict[str, str]] = {
    requests.CreateMediaBuy: {
        **dict.fromkeys(
            ("adcp_version", "adcp_major_version", "idempotency_key", "push_notification_config"),
            "how it is sent, nothing that is bought",
        ),
        **dict.fromkeys(("context", "ext"), "opaque to the seller, who echoes it or not"),
        **dict.fromkeys(("proposal_id", "budget_allocation"), "forms that are refused (OTHER_FORMS)"),
        "account": "whose purchase is read: another account’s media buys are not its own",
        "brand": "no record of a media buy names it (get-media-buys-response)",
        "po_number": "no record of a media buy names it",
        "io_acceptance": "no record of a media buy names it",
        "governance_context": "no record of a media buy names it",
    },
    requests.PackageRequest: {
        **dict.fromkeys(("context", "ext"), "opaque to the seller, who echoes it or not"),
        **dict.fromkeys(
            ("format_ids", "format_option_refs"), "what creatives may be made of: creatives are managed there"
        ),
    },
}


@pytest.mark.parametrize(
    ("model", "words"), [(requests.CreateMediaBuy, WHOLE), (requests.PackageRequest, PACKAGE)]
)
def test_every_field_of_a_purchase_is_compared_or_has_a_reason(model: Any, words: Values) -> None:
    known = [*words, *COLUMNS[model], *NOT_COMPARED[model]]
    assert len(known) == len(set(known))
    assert set(known) == set(model.model_fields)


def bought(*, named: bool = True, operation: Operation | None = None, **told: Any) -> tuple[Deal, Operation]:
    """The purchase with every word, approved, sent and confirmed; `told` instead of what was said."""
    operation = operation or sent()
    deal = Deal.objects.get()
    result = record(deal, named=named, **told)
    seen = Seen(kind="answer", status="completed", payload=result)
    observed(operation_id=operation.pk, seen=seen, channel="reply")
    publish(operation_id=operation.pk)
    assert fresh(deal).status == "booked"
    return fresh(deal), operation


def asked() -> Deal:
    """The purchase as an integrator asks for it; people let it go."""
    advertiser, seller = make_advertiser(), make_seller(webhook_mode="bearer", webhook_secret="s" * 40)
    make_account(advertiser, seller)
    start = clock.now().replace(microsecond=0) + timedelta(days=10)
    flight = {"start_time": start.isoformat(), "end_time": (start + timedelta(days=20)).isoformat()}
    package = {
        "product_id": "prod-x",
        "pricing_option_id": "opt-x",
        "budget": 1500.5,
        **{field: said for field, (said, _) in PACKAGE.items()},
    }
    whole = {field: said for field, (said, _) in WHOLE.items()}
    total = {"amount": 1500.5, "currency": "USD"}
    arguments = {"brand": {"domain": advertiser.brand_domain}, **flight, **whole, "total_budget": total}
    purchase_ask(
        Ask(
            user=make_user("Integration"),
            task="create_media_buy",
            seller=seller,
            arguments={**arguments, "packages": [package]},
        )
    )
    deal = Deal.objects.get()
    approve_deal(deal)
    return deal


def sent() -> Operation:
    operation = deal_book(deal=asked())
    claim_one(operation_id=operation.pk)
    return operation


def record(deal: Deal, *, named: bool = True, **told: Any) -> Values:
    """The media buy as its seller tells of it: as it was bought, but for `told` (`whole_name`)."""
    whole = {field: told.get(f"whole_{field}", said) for field, (said, _) in WHOLE.items()}
    package = {field: told.get(f"package_{field}", said) for field, (said, _) in PACKAGE.items()}
    line = deal.lines.get()
    priced = {"package_id": "pkg-1", "product_id": "prod-x", "budget": told.get("budget", 1500.5)}
    told_of = [{**priced, "context": {"line_id": str(line.pk)}, **package}]
    return {
        "media_buy_id": "mb-1",
        "media_buy_status": "paused" if whole.pop("paused") else "active",
        "revision": next(_REVISIONS),
        **whole,
        **({"packages": told_of} if named else {}),
    }


def reads(deal: Deal, **told: Any) -> None:
    deal_follow(deal_id=deal.pk, buy=record(deal, **told), asked_at=clock.now())


def otherwise(where: str, field: str) -> Values:
    """What a seller states that does not do as was said of one field. With its one package paused the whole
    is, and while the whole is paused nothing is said of the package."""
    if field == "paused":
        return {"whole_paused": False, "package_paused": False}
    return {f"{where}_{field}": (WHOLE if where == "whole" else PACKAGE)[field][1]}


def departing(deal: Deal) -> list[tuple[int, str]]:
    return [(one["line"], one["field"]) for one in fresh(deal).differences]


def questions() -> list[str]:
    return list(Approval.objects.filter(status="open").order_by("pk").values_list("kind", flat=True))


def test_what_is_booked_as_it_was_bought_departs_in_nothing() -> None:
    deal, _ = bought()
    reads(deal)
    assert (departing(deal), questions()) == ([], [])


@pytest.mark.parametrize("when", ["answer", "read", "named later"])
@pytest.mark.parametrize(("where", "field"), WORDS)
def test_what_is_booked_otherwise_is_asked_about(where: str, field: str, when: str) -> None:
    told = otherwise(where, field)
    deal, _ = bought(named=when != "named later", **(told if when == "answer" else {}))
    if when != "answer":
        assert departing(deal) == []
        reads(deal, **told)

    assert (0 if where == "whole" else 1, field) in departing(deal)
    assert questions() == ["booked_differently"]
    shown = [one for one in fresh(deal).differences if one["field"] == field]
    assert all(one["approved"] != one["confirmed"] for one in shown)

    reads(deal)
    assert (departing(deal), questions()) == ([], [])


@pytest.mark.parametrize(("where", "field"), [word for word in WORDS if word[1] != "paused"])
def test_what_a_later_record_says_nothing_of_stays_as_it_was_told(where: str, field: str) -> None:
    deal, _ = bought(**otherwise(where, field))
    found = departing(deal)
    reads(deal, **{f"{where}_{field}": None})
    assert (departing(deal), questions()) == (found, ["booked_differently"])


@pytest.mark.parametrize(("where", "field"), WORDS)
def test_what_people_accept_is_asked_about_no_more(where: str, field: str) -> None:
    deal, _ = bought(**otherwise(where, field))
    decide("booked_differently", "approve")
    reads(deal, **otherwise(where, field))
    assert (departing(deal), questions()) == ([], [])


@pytest.mark.parametrize("field", ["invoice_recipient", "measurement_terms", "optimization_goals"])
def test_what_a_seller_adds_to_terms_is_no_departure(field: str) -> None:
    where = "whole" if field in WHOLE else "package"
    said = (WHOLE if where == "whole" else PACKAGE)[field][0]
    more = [{**said[0], "priority": 1}] if isinstance(said, list) else {**said, "priority": 1}
    deal, _ = bought(**{f"{where}_{field}": more})
    assert departing(deal) == []


@pytest.mark.parametrize("stated", [5, "x", [], [[1]], {"billing_measurement": None}, "x" * 500])
def test_terms_in_another_form_depart(stated: Any) -> None:
    deal, _ = bought(package_measurement_terms=stated)
    assert departing(deal) == [(1, "measurement_terms")]


@pytest.mark.parametrize("stated", [True, "77000", {}, [], 10**400, float("1e300")])
def test_a_goal_in_no_form_that_can_be_read_is_none(stated: Any) -> None:
    deal, _ = bought(package_impressions=stated)
    assert departing(deal) == []


def test_a_change_of_the_budget_takes_the_goal_with_it() -> None:
    deal, _ = bought()
    change = wanted(deal, task="t-9", packages=[{"package_id": "pkg-1", "budget": 750}])
    half = {"budget": 750, "package_impressions": 38_500}
    answer = record(deal, **half)
    say(change, "completed", {**answer, "affected_packages": answer["packages"]}, task_id="t-9")
    reads(deal, **half)
    assert (departing(deal), questions()) == ([], [])


def test_what_its_seller_was_answered_is_what_was_bought() -> None:
    operation = paused(deal_book(deal=asked()))
    package = {**operation.request["packages"][0], "pacing": "asap"}
    let_go(operation, packages=[package], name="Another flight")
    deal, _ = bought(operation=operation, package_pacing="asap", whole_name="Another flight")
    assert departing(deal) == []
    reads(deal)
    assert departing(deal) == [(0, "name"), (1, "pacing")]


def test_words_are_kept_with_a_purchase_that_came_late() -> None:
    operation = sent()
    lost = Deal.objects.get()
    say(operation, "submitted", channel="reply")
    overdue(operation)
    decide("overdue", "reject")
    publish(operation_id=operation.pk)
    say(operation, "completed", record(lost, **otherwise("package", "impressions")))
    decide("late_completion", "approve")
    kept = Deal.objects.exclude(pk=lost.pk).get()
    assert departing(kept) == [(1, "impressions")]


def test_words_go_by_the_name_of_the_package_once_it_has_one() -> None:
    deal, _ = bought(named=False)
    line = DealLine.objects.get()
    assert set(DealMirror.objects.get().last_words) == {"", str(line.pk)}
    reads(deal)
    assert set(DealMirror.objects.get().last_words) == {"", "pkg-1"}


def test_what_stands_behind_a_long_place_of_terms_is_shown_and_asked_about_again() -> None:
    def terms(percent: int) -> Values:
        vendor = {"domain": "adserver.measurement.norrland-digital.example"}
        return {"billing_measurement": {"vendor": vendor, "max_variance_percent": percent}}

    deal, _ = bought(package_measurement_terms=terms(20))
    (shown,) = fresh(deal).differences
    assert shown["confirmed"].endswith("max variance percent 20")
    decide("booked_differently", "approve")
    reads(deal, package_measurement_terms=terms(95))
    assert departing(deal) == [(1, "measurement_terms")]
    assert fresh(deal).differences[0]["confirmed"].endswith("max variance percent 95")


def test_names_that_begin_alike_are_not_the_same() -> None:
    deal, _ = bought(whole_name="n" * 255)
    assert fresh(deal).differences[0]["confirmed"] == "n" * 255, "as long as names are, it is shown whole"
    decide("booked_differently", "approve")
    reads(deal, whole_name="n" * 400)
    decide("booked_differently", "approve")
    reads(deal, whole_name="n" * 400)
    assert departing(deal) == []
    reads(deal, whole_name="n" * 399 + "m")
    assert departing(deal) == [(0, "name")]


def test_of_goals_of_which_there_is_one_more_each_is_shown_by_its_place() -> None:
    other, more = {**_GOALS[0], "target": {"value": 15}}, {"kind": "metric", "metric": "views"}
    goals = [{**_GOALS[0], "target": {"value": 1.5}}]
    assert list(_apart(goals, [other, more])) == [("1 target value", 1.5, 15), ("2", None, more)]
    assert list(_apart([*goals, more], goals)) == [("2", more, None)]
    deal, _ = bought(package_optimization_goals=[*_GOALS, more])
    (shown,) = fresh(deal).differences
    assert (shown["approved"], shown["confirmed"]) == ("2 nothing", f"2 {more}")


def test_a_number_that_is_stated_as_text_is_the_same() -> None:
    terms = {"billing_measurement": {**_TERMS["billing_measurement"], "max_variance_percent": "5"}}
    deal, _ = bought(package_measurement_terms=terms)
    assert (departing(deal), questions()) == ([], [])
    terms["billing_measurement"]["vendor"] = {"domain": "other.example"}
    reads(deal, package_measurement_terms=terms)
    (shown,) = fresh(deal).differences
    assert shown["confirmed"] == "billing measurement vendor domain other.example", "and that alone"


def test_an_id_that_is_stated_as_a_number_is_the_same() -> None:
    deal, _ = bought()
    deal.lines.update(pricing_option_id="1234")
    told = record(deal)
    told["packages"][0]["pricing_option_id"] = 1234
    deal_follow(deal_id=deal.pk, buy=told, asked_at=clock.now())
    assert departing(deal) == []
