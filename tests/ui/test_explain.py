"""Explain on every entity's page, in the API and in the shell: the same five answers, within the viewer's
scope."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from campaigns.models import Campaign
from orders.models import Deal
from tasks_app import clock
from tasks_app.approvals.models import Approval
from tasks_app.commands.models import Command
from tasks_app.desk.explain import NotExplainedError, entity_of, explain, explained_entities
from tasks_app.jobs.models import Job, Step
from tasks_app.jobs.schedule import Schedule
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.models import Operation
from tasks_app.reconciliation.models import ReconciliationFinding
from tasks_app.sellers.models import Account, Seller
from tests.api.conftest import client_of as api_of
from tests.factories import make_team, make_user
from tests.ui.pages import page_of, read, stranger
from tests.ui.seed import Agency

ClientOf = Callable[..., Client]
_CARD = ("Explain", "State", "Since", "Waiting for", "Who can move it", "If nobody does")


@pytest.fixture
def everything(agency: Agency) -> dict[str, Any]:
    """One of each kind that can be explained, by kind."""
    operation = Operation.objects.filter(team__isnull=False).earliest("pk")
    team = agency.deals["tamarack-cobalt"].team
    conflict = Conflict.objects.create(
        reference="CFL-2026-000001",
        operation=operation,
        team=team,
        kind="terminal",
        digest="d" * 64,
        first={"channel": "poll", "at": clock.now().isoformat()},
        second={"channel": "webhook", "at": clock.now().isoformat()},
    )
    schedule = Schedule.objects.create(
        team=team,
        name="Morning stock",
        recipe="book_deal",
        cron="0 6 * * *",
        actor=f"human:{agency.people['Ad Ops'].pk}",
        next_due_at=clock.now() + timedelta(hours=5),
    )
    finding = ReconciliationFinding.objects.create(
        seller=operation.seller,
        kind="task",
        verdict="orphaned",
        theirs="task-unknown-here",
        digest="e" * 64,
        team=team,
    )
    return {
        "approval": agency.question("tamarack-cobalt"),
        "campaign": Campaign.objects.filter(status="awaiting_approval").earliest("pk"),
        "deal": agency.deals["tamarack-cobalt"],
        "operation": operation,
        "conflict": conflict,
        "job": Job.objects.earliest("pk"),
        "step": Step.objects.earliest("pk"),
        "schedule": schedule,
        "seller": operation.seller,
        "account": Account.objects.select_related("seller").earliest("pk"),
        "command": Command.objects.earliest("pk"),
        "finding": finding,
    }


def test_there_is_one_of_each_kind(everything: dict[str, Any]) -> None:
    assert set(everything) == set(explained_entities())
    for kind, row in everything.items():
        assert entity_of(type(row)) == kind


def test_every_row_of_the_agency_is_explained(agency: Agency, everything: dict[str, Any]) -> None:
    admin = agency.people["Administrator"]
    told = 0
    for row in everything.values():
        for one in type(row)._default_manager.all()[:60]:
            found = explain(str(one.pk), admin)
            assert all((found.state, found.state_word, found.waiting_for, found.who_words, found.otherwise))
            assert found.since is not None, found
            assert "None" not in f"{found.waiting_for}{found.who_words}{found.otherwise}"
            told += 1
    assert told > 30


def test_every_page_has_the_card_with_few_queries(
    client_of: ClientOf, everything: dict[str, Any], django_assert_max_num_queries: Any
) -> None:
    client = client_of("Administrator")
    for kind, row in everything.items():
        address = page_of(row) if kind != "step" else f"{page_of(row.job)}?step={row.pk}"
        page = client.get(address).content.decode()
        link = reverse("explain_card", args=[kind, row.pk])
        assert f'hx-get="{link}"' in page, kind
        with django_assert_max_num_queries(16):
            card = client.get(link, headers={"HX-Request": "true"}).content.decode()
        assert "<html" not in card
        assert all(words in card for words in _CARD), kind


def test_opened_by_its_link_the_card_is_a_page(client_of: ClientOf, everything: dict[str, Any]) -> None:
    page = read(client_of("Buyer"), reverse("explain_card", args=["deal", everything["deal"].pk]))
    assert all(words in page for words in _CARD)


def test_a_reference_an_id_and_a_short_name_lead_to_the_same(
    agency: Agency, everything: dict[str, Any]
) -> None:
    admin, deal, seller = agency.people["Administrator"], everything["deal"], everything["seller"]
    assert explain(deal.reference.lower(), admin) == explain(f" {deal.pk} ", admin)
    assert explain(seller.slug, admin) == explain(str(seller.pk), admin)


def test_who_asked_is_not_named_as_one_who_decides(agency: Agency) -> None:
    approval = agency.question("tamarack-cobalt")
    asker, decider = agency.people["Administrator"], agency.people["Approver"]
    before = explain(approval.reference, decider).who[0]
    assert {str(asker), str(decider)} <= set(before.people)
    assert "Approver" in before.roles

    Approval.objects.filter(pk=approval.pk).update(requested_by=f"human:{asker.pk}")

    assert str(asker) not in explain(approval.reference, decider).who[0].people


def test_nobody_who_may_is_said_and_not_left_empty(agency: Agency) -> None:
    for role in ("Approver", "Administrator"):
        agency.people[role].groups.clear()
    told = explain(agency.question("tamarack-cobalt").reference, agency.people["Buyer"])
    assert told.who[0].people == ()
    assert told.who[0].who == "Nobody at present; it takes the role Approver or Administrator"


def test_the_deadline_and_its_effect_are_told(agency: Agency) -> None:
    deal, question = agency.deals["tamarack-cobalt"], agency.question("tamarack-cobalt")
    told = explain(deal.reference, agency.people["Buyer"])
    assert told.deadline == question.due_at
    assert question.reference in told.waiting_for
    assert "waiting never approves" in told.otherwise


def test_another_team_is_told_the_same_as_of_nothing(everything: dict[str, Any]) -> None:
    outsider = make_user("Administrator", team=make_team("Elsewhere"), name="outsider")
    client = api_of(outsider)
    nothing = client.get(f"/api/v1/explain/{uuid.uuid4()}/")
    for kind, row in everything.items():
        if kind == "seller":  # an agent is nobody's; its state is everybody's
            continue
        with pytest.raises(NotExplainedError):
            explain(str(row.pk), outsider)
        for named in {str(row.pk), str(getattr(row, "reference", "") or row.pk)}:
            if kind == "account" and named != str(row.pk):
                continue
            answer = client.get(f"/api/v1/explain/{named}/")
            assert (answer.status_code, answer.json()["title"]) == (404, nothing.json()["title"]), kind


def test_without_the_right_to_see_it_there_is_none(agency: Agency, everything: dict[str, Any]) -> None:
    buyer = agency.people["Buyer"]
    with pytest.raises(NotExplainedError):
        explain(str(everything["command"].pk), buyer)
    buyer.groups.clear()
    with pytest.raises(NotExplainedError):
        explain(everything["deal"].reference, type(buyer).objects.get(pk=buyer.pk))


def test_the_api_and_the_shell_tell_what_the_page_tells(agency: Agency, everything: dict[str, Any]) -> None:
    maya, operation = agency.people["Approver"], everything["operation"]
    told = explain(operation.reference, maya)

    answer = api_of(maya).get(f"/api/v1/explain/{operation.reference}/").json()
    out = io.StringIO()
    call_command("explain", operation.reference, "--as", maya.username, "--json", stdout=out)
    shell = json.loads(out.getvalue())

    for data in (answer, shell):
        assert data["state"] == told.state
        assert data["waiting_for"] == told.waiting_for
        assert data["if_nobody_does"] == told.otherwise
        assert [one["who"] for one in data["who_can_move_it"]] == [one.who for one in told.who]


def test_the_shell_tells_it_in_lines(everything: dict[str, Any]) -> None:
    out = io.StringIO()
    call_command("explain", everything["deal"].reference, stdout=out)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith(f"Deal {everything['deal'].reference}: ")
    assert [line.partition("  ")[0] for line in lines[1:5]] == [
        "State", "Waiting for", "Who can move it", "If nobody does",
    ]  # fmt: skip
    assert "?" not in lines[1], "no-break spaces are printed as spaces"


def test_the_shell_refuses_what_is_nothing(agency: Agency) -> None:
    with pytest.raises(CommandError, match="There is no"):
        call_command("explain", "DEAL-1999-000001", stdout=io.StringIO())


@pytest.mark.parametrize("named", ["x" * 300, "DEAL-2026-", "'; drop table", "%00", "ΩΩΩ", "../../x"])
def test_hostile_names_name_nothing(agency: Agency, named: str) -> None:
    assert api_of(agency.people["Administrator"]).get(f"/api/v1/explain/{named}/").status_code == 404


def test_without_a_login_nothing_is_told(agency: Agency) -> None:
    reference = agency.deals["tamarack-cobalt"].reference
    assert api_of(agency.people["Buyer"]).get(f"/api/v1/explain/{reference}/").status_code == 200
    assert APIClient().get(f"/api/v1/explain/{reference}/").status_code == 401


def test_a_page_of_another_team_does_not_answer_with_the_card(everything: dict[str, Any]) -> None:
    client = stranger()
    assert client.get(reverse("explain_card", args=["deal", everything["deal"].pk])).status_code == 404
    assert client.get(reverse("explain_card", args=["nonsense", everything["deal"].pk])).status_code == 404
    away = Client().get(reverse("explain_card", args=["deal", everything["deal"].pk]))
    assert away.status_code == 302


def test_of_what_is_nobodys_only_people_of_ones_own_teams_are_named(agency: Agency) -> None:
    elsewhere = make_team("Elsewhere")
    outsider = make_user("Buyer", team=elsewhere, name="outsider")
    theirs = make_user("Ad Ops", team=elsewhere, name="their-ops")
    seller = Seller.objects.earliest("pk")
    assert explain(seller.slug, outsider).who[0].people == (str(theirs),)
    ours = explain(seller.slug, agency.people["Buyer"]).who[0].people
    assert str(agency.people["Ad Ops"]) in ours
    assert str(theirs) not in ours


def test_it_names_what_it_was_asked_for(agency: Agency) -> None:
    seller = Seller.objects.earliest("pk")
    assert explain(seller.slug, agency.people["Buyer"]).title == seller.name
    assert isinstance(agency.deals["tamarack-cobalt"], Deal)
