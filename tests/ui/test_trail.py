"""Every entity's page shows its lifecycle and its whole trail; what is refused there is said aloud."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin import site
from django.contrib.messages import get_messages
from django.contrib.messages.storage.fallback import FallbackStorage
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.urls import reverse
from django.utils import timezone

from orders.models import Deal
from tasks_app.approvals.models import Approval
from tasks_app.jobs.models import Job, Step
from tasks_app.lifecycle.errors import InvalidTransitionError
from tasks_app.lifecycle.guards import guard_name, rule_add, rules_reload
from tasks_app.lifecycle.models import AuditEntry, Stateful
from tasks_app.lifecycle.names import names_of
from tasks_app.lifecycle.pages import StatefulPage
from tasks_app.lifecycle.presenters import Trail, refusal_words, trail_rows_named
from tasks_app.lifecycle.selectors import entries_of
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.models import Operation
from tests.factories import decided_later
from tests.ui.pages import STAFF, ClientOf, page_of, read, stranger
from tests.ui.seed import Agency
from tests.ui.seed_parts import ZONE

_INLINE = re.compile(r"<[^>]+\s(?:style|on[a-z]+)\s*=|<script(?![^>]*\ssrc=)", re.IGNORECASE)
_UNSIGNED = "the insertion order is not signed"


def entities(agency: Agency) -> Iterator[tuple[Stateful, str, Callable[[Any], Any]]]:
    """Each kind of entity: one, its page, and where the page's data have its diagram and trail."""
    deal = agency.deals["lindqvist-norrland"]
    job = Job.objects.get(subject_id=agency.campaigns["lindqvist"].pk, parent_step=None)
    step = Step.objects.get(job=job, key="book[0]")
    operation = Operation.objects.get(subject_id=deal.pk)
    own: Callable[[Any], Any] = lambda context: context  # noqa: E731
    for entity in (deal, agency.campaigns["lindqvist"], operation, agency.question("lindqvist-norrland")):
        entity.refresh_from_db()
        yield entity, page_of(entity), own
    yield job, page_of(job), lambda context: context["whole"]
    yield step, f"{page_of(job)}?step={step.pk}", lambda context: context["step"]


@pytest.mark.parametrize("role", STAFF)
def test_every_page_renders_for_every_role_with_few_queries(
    agency: Agency, client_of: ClientOf, django_assert_max_num_queries: Any, role: str
) -> None:
    client = client_of(role)
    for entity, address, _ in entities(agency):
        # A step's page is its job's, which tells much more.
        with django_assert_max_num_queries(
            47 if "step=" in address else 33 if isinstance(entity, Job) else 27
        ):
            answer = client.get(address)
        assert answer.status_code == 200, entity
        assert not _INLINE.findall(answer.content.decode()), entity


def test_every_page_tells_who_when_what_and_why(agency: Agency, client_of: ClientOf) -> None:
    client = client_of("Auditor")
    for entity, address, of in entities(agency):
        page = read(client, address)
        trail: Trail = of(client.get(address).context)["trail"]
        entries = list(AuditEntry.objects.filter(entity_id=entity.pk).order_by("-seq"))
        assert [row.seq for row in trail.rows] == [entry.seq for entry in entries]
        assert trail.verification.ok, entity
        for row, entry in zip(trail.rows, entries, strict=True):
            if entry.from_status != entry.to_status:  # a note moves nothing
                assert f"{entry.from_status or '∅'} → {entry.to_status}" in page
            assert row.holds
            with timezone.override(ZONE):
                shown = (row.when, row.who, row.hash, row.note)
            for said in shown:
                assert " ".join(said.split()) in page
            assert row.utc == entry.at.isoformat(timespec="microseconds")
            assert {fact.name for fact in row.changes} == set(entry.changes)
            assert {fact.name for fact in row.metadata} == set(entry.metadata)


def test_recorded_values_are_told_in_words(agency: Agency) -> None:
    recorded = {
        "due_at": [None, "2026-11-20T21:01:34.661417+00:00"],
        "digest": ["", "ab" * 32],
        "policies": [[], ["first/1", "second/2"]],
        "count": [1, 2],
    }
    entry = AuditEntry.objects.filter(entity_type="deal").order_by("pk")[0]
    entry.changes = recorded
    with timezone.override(ZONE):
        told = {fact.name: (fact.before, fact.after) for fact in trail_rows_named([entry])[0].changes}
    assert told.pop("due_at")[1].replace("\xa0", " ").startswith("Fri 20 Nov")
    assert told == {
        "digest": ("nothing", "abababababab…"),
        "policies": ("[]", "first/1, second/2"),
        "count": ("1", "2"),
    }


def test_every_page_draws_the_lifecycle_with_the_present_state(agency: Agency, client_of: ClientOf) -> None:
    client = client_of("Auditor")
    for entity, address, _ in entities(agency):
        body = html.unescape(client.get(address).content.decode())
        following = " or ".join(entity.declared().targets(entity.status)[-1:])
        label = next(
            found
            for found in re.findall(r'aria-label="(Lifecycle of [^"]+)"', body)
            if entity.entity in found
        )
        assert f"Now {entity.status}" in label
        assert following in label
        assert body.count('id="fd-head"') == 1  # one arrow head for all pictures of a page


def test_what_changed_is_shown_before_and_after(agency: Agency, client_of: ClientOf) -> None:
    page = read(client_of("Auditor"), page_of(agency.deals["lindqvist-norrland"]))
    assert "media_buy_id nothing → nrl-58213" in page
    assert "revision nothing → 1" in page
    assert "settled_by reply" in page  # metadata
    assert "columns changed, metadata" in page


def test_the_time_in_each_state_adds_up(agency: Agency, client_of: ClientOf) -> None:
    deal = agency.deals["lindqvist-norrland"]
    trail: Trail = client_of("Auditor").get(page_of(deal)).context["trail"]
    assert [stay.status for stay in trail.stays] == ["quoted", "accepted", "booking", "booked"]
    assert [stay.now for stay in trail.stays] == [False, False, False, True]
    assert trail.stays[2].span.replace("\xa0", " ") == "2 h 48 m"
    entries = entries_of("deal", deal.pk)
    assert entries[3].at - entries[2].at >= timedelta(hours=2.8)
    assert trail.rows[2].stayed == trail.stays[2].span  # the newest is a note
    assert trail.rows[0].stayed.endswith("so far")


def test_what_has_ended_does_not_go_on_counting(agency: Agency, client_of: ClientOf) -> None:
    decided = agency.question("lindqvist-norrland")
    page = read(client_of("Auditor"), page_of(decided))
    trail: Trail = client_of("Auditor").get(page_of(decided)).context["trail"]
    assert trail.stays[-1].span == "final"
    assert trail.rows[0].stayed == "to the end"
    assert "so far" not in page


def test_every_page_offers_the_trail_as_a_file(agency: Agency, client_of: ClientOf) -> None:
    client = client_of("Auditor")
    for entity, address, _ in entities(agency):
        body = client.get(address).content.decode()
        for form, word in (("csv", "verification"), ("jsonl", '"ok": true')):
            export = reverse(f"trail_{form}", args=[entity.entity, entity.pk])
            assert f'href="{export}"' in body
            lines = b"".join(client.get(export)).decode().splitlines()  # type: ignore[arg-type]
            assert word in lines[-1]
            assert len(lines) > entity.version


def test_the_first_entry_that_does_not_hold_is_marked(
    agency: Agency, client_of: ClientOf, tamper: Callable[..., None]
) -> None:
    deal = agency.deals["lindqvist-norrland"]
    tamper(AuditEntry.objects.get(entity_id=deal.pk, seq=3), reason="Somebody else's words")
    answer = client_of("Auditor").get(page_of(deal))
    trail: Trail = answer.context["trail"]
    assert [row.holds for row in trail.rows] == [None, None, False, True, True]
    assert "The trail does not hold: entry 3" in html.unescape(answer.content.decode())


def test_a_trail_that_somebody_emptied_of_meaning_still_renders(
    agency: Agency, client_of: ClientOf, tamper: Callable[..., None]
) -> None:
    deal = agency.deals["lindqvist-norrland"]
    entry = AuditEntry.objects.get(entity_id=deal.pk, seq=4)
    tamper(entry, metadata="[1]", changes='"<script>"', to_status="no_such_state")
    answer = client_of("Auditor").get(page_of(deal))
    assert answer.status_code == 200
    assert "&lt;script&gt;" in answer.content.decode()


def test_steps_lead_to_their_own_trail(agency: Agency, client_of: ClientOf) -> None:
    job = Job.objects.get(subject_id=agency.campaigns["lindqvist"].pk, parent_step=None)
    client = client_of("Ad Ops")
    plain = client.get(page_of(job))
    assert "step" not in plain.context
    for step in Step.objects.filter(job=job):
        assert f'href="{page_of(job)}?step={step.pk}#step"' in plain.content.decode()
        assert names_of("step", [step.pk])[step.pk].link == f"{page_of(job)}?step={step.pk}#step"
        assert AuditEntry.objects.filter(entity_id=step.pk).count() == step.version
    other = Step.objects.exclude(job=job).first()
    assert other is not None
    for wanted in ("nonsense", "", other.pk):
        assert "step" not in client.get(f"{page_of(job)}?step={wanted}").context
    assert stranger().get(f"{page_of(job)}?step={other.pk}").status_code in (302, 404)


@pytest.fixture
def unsigned(agency: Agency) -> Iterator[None]:
    """An administrator has attached a rule that nobody can meet today."""
    guard_name("test_trail.signed", _signed)
    rule_add(
        entity="deal",
        from_status="quoted",
        to_status="accepted",
        guard="test_trail.signed",
        actor="system",
        reason="Legal asked for it",
    )
    yield
    rules_reload()


def _signed(*_: Any) -> str:
    return _UNSIGNED


@pytest.mark.usefixtures("unsigned")
def test_a_decision_whose_effect_is_refused_is_told_and_changes_nothing(
    agency: Agency, client_of: ClientOf
) -> None:
    asked, deal = agency.question("tamarack-cobalt"), agency.deals["tamarack-cobalt"]
    before = AuditEntry.objects.count()
    form = {"decision": "approve", "comment": "Good rate.", "digest": asked.evidence_digest}
    answer = client_of("Approver").post(page_of(asked), form)
    assert answer.status_code == 409
    said = f"{deal.reference} was not moved from quoted to accepted: {_UNSIGNED}."
    assert said in answer.content.decode()
    assert "Possible from quoted: negotiating, accepted" in answer.content.decode()
    assert "Good rate." in answer.content.decode()
    asked.refresh_from_db()
    assert (asked.status, asked.decisions.count()) == ("open", 0)
    assert AuditEntry.objects.count() == before


@pytest.mark.usefixtures("unsigned")
def test_of_several_decisions_each_refused_one_is_told(agency: Agency, client_of: ClientOf) -> None:
    one, other = agency.question("tamarack-cobalt"), agency.question("tamarack-norrland")
    form = {
        "decision": "approve",
        "comment": "All good.",
        "digest": one.evidence_digest,
        "scope": "together",
        "also": [f"{other.pk}:{other.evidence_digest}"],
    }
    client = client_of("Approver")
    report = client.post(page_of(one), {**form, "confirmed": "x"})["Location"]
    decided_later()
    answer = client.get(report)
    assert answer.context["heading"] == "2 not decided"
    told = {line.approval.reference: line.message for line in answer.context["report"]}
    assert set(told) == {one.reference, other.reference}
    assert all(_UNSIGNED in line for line in told.values())
    assert not Approval.objects.filter(pk__in=(one.pk, other.pk)).exclude(status="open").exists()


class _Delivers(StatefulPage):
    """A page whose form moves a deal where it may not go."""

    object_template = "desk/deal.html"

    def object_post(self, request: HttpRequest, obj: Deal) -> HttpResponse:
        transition(obj, "delivering", actor="system")
        raise AssertionError("it was moved")


def test_a_refused_transition_becomes_a_message_on_the_page_it_came_from(
    agency: Agency, rf: RequestFactory
) -> None:
    deal = agency.deals["tamarack-cobalt"]
    request = rf.post(page_of(deal))
    request.user = agency.people["Administrator"]
    request.session = {}  # type: ignore[assignment]
    request._messages = FallbackStorage(request)  # type: ignore[attr-defined]
    answer = _Delivers(Deal, site).change_view(request, str(deal.pk))
    assert (answer.status_code, answer["Location"]) == (302, page_of(deal))
    (said,) = get_messages(request)
    assert said.level_tag == "error"
    assert str(said).startswith(
        f"{deal.reference} was not moved from quoted to delivering: no matching transition rule."
    )


def test_a_refusal_about_something_unknown_is_told_as_it_is() -> None:
    error = InvalidTransitionError("thing", "many", "a", "b", "why not")
    assert refusal_words(error) == "thing many was not moved from a to b: why not."
