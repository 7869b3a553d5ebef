"""Nothing that is decided on is hidden: every value of a question's evidence is on its page, by kind."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from tasks_app.approvals.evidence import costliest_first, differences, other_facts
from tasks_app.approvals.models import Approval
from tasks_app.approvals.plain import shortened
from tasks_app.approvals.sent import leaves
from tasks_app.desk import text
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.steered import SteeringRefusedError
from tasks_app.operations.steering import operation_settle
from tests.factories import make_user
from tests.operations.making import stand
from tests.orders.asking import ASKED, asked
from tests.unsaved import unsaved

# What has a place of its own on the page of any question, as texts made of it (tests/ui, tests/orders), and
# on that of one about packages. Whoever gives another value a place enters it here, with the test that finds
# it there.
ANYWHERE = {"cancellation", "differences", "gates", "lines", "passes", "seller", "sent"}
OF_PACKAGES = ANYWHERE | {
    *("account", "account_status", "advertiser", "budget_left_after", "confirmed_gross", "currency", "deal"),
    *("end", "gross", "gross_after", "guaranteed", "invoiced_to", "new_end", "new_start", "payment_terms"),
    *("start", "terms", "zone"),
}
OF_REASONS = {"asked_for", "lines", "passed_over", "passed_over_more"}
ANSWERS = {"answered", "first", "second"}
BLANK = (None, "", [], {})


@pytest.mark.django_db
@pytest.mark.parametrize("what", ASKED)
def test_every_value_is_on_the_page_or_has_a_place_of_its_own(what: str) -> None:
    approval = asked(what, make_user("Ad Ops"))
    placed = OF_PACKAGES if approval.evidence.get("lines") else ANYWHERE
    said = {f"{name}_in_words" for name in approval.evidence}
    beside = {
        name: value
        for name, value in approval.evidence.items()
        if name not in placed and value not in BLANK
        if f"{name}_in_words" not in said & approval.evidence.keys()
    }
    reasons = beside.pop("reasons", {})
    beside["reasons beside"] = {name: value for name, value in reasons.items() if name not in OF_REASONS}
    beside["reasons known"] = [line["facts"] for line in reasons.get("lines", []) if "facts" in line]
    wanted = [leaf for name, value in beside.items() if value not in BLANK for leaf in leaves(value, (name,))]
    facts = other_facts(approval)
    assert len(facts) == len(wanted)
    page = _page(approval)
    for label, value in facts:
        assert f"<dt>{escape(label)}</dt><dd>{escape(value)}</dd>" in page, label


@pytest.mark.django_db
@pytest.mark.parametrize("what", ASKED)
def test_what_a_seller_answers_hides_nothing_of_ours(what: str) -> None:
    """However much of it there is, and wherever its name stands among the others."""
    approval = asked(what, make_user("Ad Ops"))
    ours = [fact for fact in other_facts(approval) if fact[0].partition(",")[0].lower() not in ANSWERS]
    for name in ANSWERS & approval.evidence.keys():
        approval.evidence[name] = {"body": ["v"] * 5_000, "long": "w" * 5_000}
    assert [fact for fact in other_facts(approval) if fact in ours] == ours
    assert len(other_facts(approval)) <= len(ours) + 301 * len(ANSWERS)


def test_what_a_seller_holds_is_bounded_package_by_package_and_value_by_value() -> None:
    """A country by its postal codes hides no other package's budget, however many they are."""
    wide = {"postal": [f"{n:05}" for n in range(5_000)], "said": "w" * 5_000}
    held = [{"package_id": name, "budget": "90000", "start": None, "targeting": wide} for name in ("a", "b")]
    found = other_facts(unsaved(Approval, evidence={"seller_holds": held, "what": "ours"}))
    assert len(found) == 2 * (3 + 301) + 1
    assert ("Seller holds 2, budget", "90000") in found
    assert ("Seller holds 1, start", text.DASH) in found
    assert ("Seller holds 1, targeting, and", "4,701 more values, which its record holds") in found


def test_names_of_a_megabyte_are_cut_with_the_values_under_them() -> None:
    name = "n" * 1_000_000
    answered = {name: {f"a{n}": n for n in range(30_000)}}
    found = other_facts(unsaved(Approval, evidence={"first": answered}))
    assert len(found) == 301
    assert max(len(label) for label, _ in found) < 300
    assert found[0] == (f"First, {shortened(name, 200)}, a0", "0")


def test_what_people_write_is_read_to_its_end() -> None:
    letter = {"answer": "a" * 60_000 + " and raise it to 50,000", "change_in_words": "b" * 5_000}
    assert dict(other_facts(unsaved(Approval, evidence=letter))) == {
        "Answer": letter["answer"],
        "Change in words": letter["change_in_words"],
    }


@pytest.mark.django_db
def test_what_is_recorded_by_hand_as_the_sellers_answer_is_read_by_who_approves() -> None:
    operation, ops = stand(S.SUBMITTED), make_user("Ad Ops")
    told: dict[str, Any] = {"media_buy_id": "mb-1", "packages": [{"package_id": "p-1", "budget": 90_000}]}
    told["creatives"] = []
    said = {"end": "completed", "reason": "Told by phone", "evidence": "Their letter of 19 November"}
    with pytest.raises(SteeringRefusedError, match="reads them all"):
        operation_settle(operation_id=operation.pk, user=ops, **said, result={**told, "x": [1] * 200})
    approval = operation_settle(operation_id=operation.pk, user=ops, **said, result=told)
    assert approval is not None
    page = _page(approval)
    assert f"<dt>Result, creatives</dt><dd>{text.DASH}</dd>" in page, "that there is none is recorded too"
    assert "<dt>Result, packages 1, budget</dt><dd>90000</dd>" in page
    assert "<dt>Result, packages 1, package id</dt><dd>p-1</dd>" in page


def test_of_more_than_anybody_reads_it_says_how_many_are_left() -> None:
    approval = unsaved(Approval, evidence={"first": [f"v{n}" for n in range(1_000)], "what": "ours"})
    found = other_facts(approval)
    assert found[:2] == [("What", "ours"), ("First 1", "v0")]
    assert found[-1] == ("First, and", "700 more values, which its record holds")
    assert len(other_facts(unsaved(Approval, evidence={"first": ["v"] * 300}))) == 300


def test_of_millions_it_counts_no_more_than_anybody_wants_to_know() -> None:
    read = count()

    class Endless(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            return (None for _ in read)

    found = other_facts(unsaved(Approval, evidence={"first": Endless(["v"])}))
    assert found[-1] == ("First, and", "more than 20,000 more values, which its record holds")
    assert next(read) < 21_000


def test_why_a_media_buy_was_adopted_and_in_whose_place_is_read_by_who_approves() -> None:
    said = {
        "adopted": "Found by hand",
        "replaces": "DEAL-2026-000007",
        "passed_over": [],
        "asked_for": {"x": 1},
    }
    reasons = {**said, "lines": [{"facts": "its word alone", "matches": []}]}
    found = other_facts(unsaved(Approval, evidence={"lines": [{"product": "a"}], "reasons": reasons}))
    assert found == [
        ("Adopted", "Found by hand"),
        ("Replaces", "DEAL-2026-000007"),
        ("Packages 1, facts", "its word alone"),
    ]
    terms = {"terms": {"hold_expires_at": "soon"}}
    assert other_facts(unsaved(Approval, evidence=terms)) == [("Terms, hold expires at", "soon")]


def test_what_costs_is_shown_first() -> None:
    told = [{"field": name, "approved": "a", "confirmed": "b"} for name in ("name", "start", "currency")]
    approval = unsaved(Approval, evidence={"differences": told})
    assert [one.field for one in costliest_first(differences(approval))] == ["currency", "name", "start"]


@pytest.mark.parametrize("end", ["x", "y" * 10])
def test_long_texts_that_begin_alike_are_told_apart(end: str) -> None:
    one, other = shortened("n" * 100, 80), shortened("n" * 100 + end, 80)
    assert one != other
    assert len(one) == len(other) == 80
    assert shortened("n" * 80, 80) == "n" * 80


def _page(approval: Approval) -> str:
    client = Client()
    client.force_login(make_user("Administrator", is_staff=True))
    answer = client.get(reverse("admin:tasks_app_approval_change", args=[approval.pk]))
    assert answer.status_code == 200
    return answer.content.decode()
