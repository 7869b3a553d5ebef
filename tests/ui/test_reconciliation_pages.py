"""Reconciliation in the admin: what differs, for whom, and what can be done about it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.urls import reverse

from orders.models import Deal
from tasks_app.approvals.models import Approval
from tasks_app.operations.models import Operation
from tasks_app.reconciliation.models import ReconciliationFinding, ReconciliationRun
from tests.ui.pages import STAFF, ClientOf, drawn, list_of, page_of, read, stranger
from tests.ui.seed import Agency
from tests.ui.seed_reconciliation import reconciled

NOW = reverse("admin:reconcile_now")
_INLINE = re.compile(r"<[^>]+\s(?:style|on[a-z]+)\s*=|<script(?![^>]*\ssrc=)", re.IGNORECASE)
SEEING = ("Ad Ops", "Auditor", "Administrator")


@pytest.fixture
def run(agency: Agency, monkeypatch: pytest.MonkeyPatch) -> ReconciliationRun:
    deal = Deal.objects.get(media_buy_id="nrl-58102")
    operation = Operation.objects.filter(seller=deal.seller).latest("id")
    return reconciled(monkeypatch, deal=deal, operation=operation)


def pages(run: ReconciliationRun) -> dict[str, str]:
    found = {one.verdict: page_of(one) for one in ReconciliationFinding.objects.all()}
    findings = list_of(ReconciliationFinding)
    return {
        "open": findings,
        "list_external": f"{findings}?view=external",
        "resolved": f"{findings}?view=resolved",
        "runs": list_of(ReconciliationRun),
        "run": page_of(run),
        **found,
    }


@pytest.mark.parametrize("role", STAFF)
def test_every_page_for_every_role(
    run: ReconciliationRun, client_of: ClientOf, django_assert_max_num_queries: Any, role: str
) -> None:
    client = client_of(role)
    for name, address in pages(run).items():
        with django_assert_max_num_queries(25):
            answer = client.get(address)
        if role == "Auditor" and name == "orphaned":
            assert answer.status_code == 302, "nobody's for certain: for who steers"
            continue
        assert answer.status_code == (200 if role in SEEING else 403), name
        if role in SEEING:
            assert not _INLINE.findall(answer.content.decode()), name


def test_the_loudest_is_told_with_whom_it_waits_on(run: ReconciliationRun, client_of: ClientOf) -> None:
    client = client_of("Ad Ops")
    listed = read(client, pages(run)["open"])
    assert "Bought, unknown here" in listed
    assert "nrl-77120" in listed
    assert "nrl-10044" not in listed, "what was bought without us is no difference"
    page = read(client, pages(run)["bought_unknown"])
    for said in ("Money may be being spent", "Adopt as a deal", "Take it", "It may stay so"):
        assert said in page


def test_only_who_may_steer_is_offered_anything(run: ReconciliationRun, client_of: ClientOf) -> None:
    page = read(client_of("Auditor"), pages(run)["bought_unknown"])
    assert "Nothing for you to do" in page
    assert "Adopt as a deal" not in page
    assert "Reconcile now" not in read(client_of("Auditor"), pages(run)["open"])

    address = pages(run)["bought_unknown"]
    client_of("Auditor").post(address, {"action": "seen", "reason": "x"})
    assert client_of("Auditor").post(NOW).status_code == 403
    assert ReconciliationFinding.objects.get(verdict="bought_unknown").is_open


def test_adopting_from_the_page(run: ReconciliationRun, client_of: ClientOf) -> None:
    client, address = client_of("Ad Ops"), pages(run)["bought_unknown"]

    seen = drawn(client, address, named="seen")
    early = client.post(address, {"action": "adopt", "reason": "It is ours"}, follow=True)
    assert "read it again" in early.content.decode(), "it does not say what was shown"
    refused = client.post(address, {**seen, "action": "adopt", "reason": ""}, follow=True)
    assert "Say why" in refused.content.decode()
    done = client.post(address, {**seen, "action": "adopt", "reason": "It is ours"}, follow=True)

    deal = Deal.objects.get(media_buy_id="nrl-77120")
    assert f"nrl-77120 is {deal.reference} now" in done.content.decode()
    assert deal.status == "delivering"
    question = Approval.objects.get(subject_id=deal.pk)
    asked = read(client_of("Approver"), page_of(question))
    assert "runs at the seller" in asked
    page = read(client, page_of(deal))
    assert "Adopted" in page
    assert "It is ours" in page


def test_asking_for_a_run(run: ReconciliationRun, client_of: ClientOf) -> None:
    client = client_of("Ad Ops")
    assert client.get(NOW).status_code == 405
    client.post(NOW)
    client.post(NOW)
    asked = ReconciliationRun.objects.get(state="asked")
    assert (asked.trigger, asked.asked_by.startswith("human:")) == ("hand", True)


def test_a_run_that_had_nobody_to_ask_says_so(client_of: ClientOf) -> None:
    asked = ReconciliationRun.objects.create(trigger=ReconciliationRun.Trigger.START, asked_by="system")
    client = client_of("Ad Ops")
    assert "No report yet" in read(client, page_of(asked))

    ReconciliationRun.objects.filter(pk=asked.pk).update(state="ended", ended_at=asked.asked_at)

    assert "None was there that is switched on." in read(client, page_of(asked))


def test_another_team_sees_nothing_of_it(run: ReconciliationRun) -> None:
    client = stranger("Ad Ops")
    reference = Deal.objects.get(media_buy_id="nrl-58102").reference
    for name in ("open", "list_external", "resolved", "run", "runs"):
        shown = read(client, pages(run)[name])
        assert "nrl-77120" not in shown, name
        assert reference not in shown, name
    assert "nrl-task-4410" in read(client, pages(run)["run"]), "nobody's for certain: for who steers"
    answer = client.get(pages(run)["bought_unknown"], follow=True)
    assert "nrl-77120" not in answer.content.decode()


def test_what_a_seller_says_is_text(run: ReconciliationRun, client_of: ClientOf) -> None:
    ReconciliationFinding.objects.filter(verdict="orphaned").update(
        theirs="<script>alert(1)</script>", note="<b>x</b>", told={"a": "</pre><script>"}
    )
    client = client_of("Ad Ops")
    for address in (pages(run)["open"], pages(run)["orphaned"]):
        body = client.get(address).content.decode()
        assert "<script>alert" not in body
        assert "<b>x</b>" not in body
