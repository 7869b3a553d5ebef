"""Nothing that is decided on is hidden: every value of a question's evidence is on its page, by kind."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from tasks_app.approvals import evidence
from tasks_app.approvals.evidence import costliest_first, differences, other_facts
from tasks_app.approvals.models import Approval
from tasks_app.approvals.plain import shortened
from tasks_app.approvals.sent import leaves
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.steered import SteeringRefusedError
from tasks_app.operations.steering import operation_settle
from tests.factories import make_user
from tests.operations.making import stand
from tests.orders.asking import ASKED, asked
from tests.unsaved import unsaved

# What has a place of its own on the page, as texts made of it (tests/ui, tests/orders).
OF_PACKAGES, ANYWHERE = evidence._SHOWN, evidence._PLACED


@pytest.mark.django_db
@pytest.mark.parametrize("what", ASKED)
def test_every_value_is_on_the_page_or_has_a_place_of_its_own(what: str) -> None:
    approval = asked(what, make_user("Ad Ops"))
    placed = OF_PACKAGES if approval.evidence.get("lines") else ANYWHERE
    said = {f"{name}_in_words" for name in approval.evidence}
    beside = {
        name: value
        for name, value in approval.evidence.items()
        if name not in placed and f"{name}_in_words" not in said & approval.evidence.keys()
    }
    wanted = [leaf for _, leaf in leaves(beside) if leaf not in (None, "", [], {})]
    facts = other_facts(approval)
    assert len(facts) == len(wanted)
    page = _page(approval)
    for label, value in facts:
        assert f"<dt>{escape(label)}</dt><dd>{escape(value)}</dd>" in page, label


@pytest.mark.django_db
def test_what_is_recorded_by_hand_as_the_sellers_answer_is_read_by_who_approves() -> None:
    operation, ops = stand(S.SUBMITTED), make_user("Ad Ops")
    told: dict[str, Any] = {"media_buy_id": "mb-1", "packages": [{"package_id": "p-1", "budget": 90_000}]}
    said = {"end": "completed", "reason": "Told by phone", "evidence": "Their letter of 19 November"}
    with pytest.raises(SteeringRefusedError, match="reads them all"):
        operation_settle(operation_id=operation.pk, user=ops, **said, result={**told, "x": [1] * 200})
    approval = operation_settle(operation_id=operation.pk, user=ops, **said, result=told)
    assert approval is not None
    page = _page(approval)
    assert "<dt>Result, packages 1, budget</dt><dd>90000</dd>" in page
    assert "<dt>Result, packages 1, package id</dt><dd>p-1</dd>" in page


def test_of_more_than_anybody_reads_it_says_how_many_are_left() -> None:
    approval = unsaved(Approval, evidence={"first": [f"v{n}" for n in range(1_000)]})
    found = other_facts(approval)
    assert found[0] == ("First 1", "v0")
    assert found[-1] == ("And", "700 more values, which its record holds")


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
