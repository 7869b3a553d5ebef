"""A buyer of one client never sees another's: in every selector, service and page."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Permission
from django.db import transaction
from django.test import Client
from rest_framework.test import APIClient

from campaigns.services import campaign_submit
from orders.models import Deal, DealLine
from orders.questions import ask_deal
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.jobs.bulk import bulk_start
from tasks_app.jobs.endings import job_cancel
from tasks_app.jobs.models import Job, Step
from tasks_app.jobs.outside_event import OutsideEvent
from tasks_app.jobs.planning import job_start
from tasks_app.jobs.selectors import outside_events_of
from tasks_app.lifecycle.errors import InvalidTransitionError
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.selectors import entries_visible
from tasks_app.management.people import deciders
from tasks_app.notifications.models import Notification
from tasks_app.notifications.selectors import mail_recipients, notifications_of, unread_count
from tasks_app.notifications.services import About, notify
from tasks_app.operations.models import Operation
from tasks_app.operations.reads import read_ensure
from tasks_app.operations.services import Subject
from tasks_app.people import scope
from tasks_app.people.actors import actor_key
from tasks_app.people.holders import users_with
from tasks_app.people.models import Advertiser, Membership, Team, User
from tasks_app.people.roles import DECIDE, ROLES
from tasks_app.people.scope import (
    advertiser_of,
    advertiser_path,
    advertisers_seen,
    covers,
    members_of,
    visible,
)
from tests.campaigns.briefs import brief
from tests.factories import make_advertiser, make_deal, make_seller, make_team, make_user

pytestmark = pytest.mark.django_db

# Which models with a team go by the team alone, and why.
BY_TEAM = {
    "Advertiser": "is one",
    "Membership": "is administrators'",
    "KillSwitch": "stops a whole team",
    "Schedule": "starts jobs of the team's, about no advertiser",
    "EventWait": "has no page: its step has",
    "SavedFilter": "names lists' parameters, no rows",
    "TeamWebhook": "is administrators'",
}


def limit(user: User, *advertisers: Advertiser) -> User:
    """The same person, who sees these advertisers of their team alone."""
    seat = Membership.objects.get(user=user)
    seat.every_advertiser = False
    seat.save()
    seat.advertisers.set(advertisers)
    return User.objects.get(pk=user.pk)


@pytest.fixture
def lindqvist() -> Deal:
    return make_deal(seller=make_seller())


@pytest.fixture
def northwind(lindqvist: Deal) -> Deal:
    """Another client of the same team, with the same seller."""
    advertiser = make_advertiser("Northwind Air")
    return make_deal(seller=lindqvist.seller, account=False, advertiser=advertiser)


def test_who_is_limited_sees_these_advertisers_alone(lindqvist: Deal, northwind: Deal) -> None:
    whole, part = make_user("Buyer"), limit(make_user("Buyer"), lindqvist.advertiser)
    assert set(visible(Deal.objects.all(), whole)) == {lindqvist, northwind}
    assert set(visible(Deal.objects.all(), part)) == {lindqvist}
    assert {line.deal for line in visible(DealLine.objects.all(), part, team="deal__team")} == {lindqvist}
    assert set(advertisers_seen(part)) == {lindqvist.advertiser}
    entries = entries_visible(part).filter(entity_type="deal")
    assert set(entries.values_list("entity_id", flat=True)) == {lindqvist.pk}
    assert set(visible(Deal.objects.all(), limit(make_user("Buyer")))) == set()


def test_of_another_team_one_sees_nothing_whatever_is_named(lindqvist: Deal) -> None:
    stranger = limit(make_user("Buyer", team=make_team("Others")), lindqvist.advertiser)
    assert not visible(Deal.objects.all(), stranger).exists()


def test_each_team_sees_its_own_and_nothing_of_anothers(lindqvist: Deal) -> None:
    """Who sees a whole team sees that team: by rows of every kind, and by each row at hand."""
    job = job_start(recipe="book_deal", inputs={}, team=lindqvist.team, actor="system")
    read = read_ensure(
        purpose="test", task_type="get_media_buys", seller=lindqvist.seller, arguments={}, actor="system",
        team=lindqvist.team,
    )  # fmt: skip
    notify(kind="test", title="News", team=lindqvist.team)
    rows = [lindqvist, ask_deal(lindqvist), job, job.steps.first(), read, lindqvist.advertiser]
    paths = {Step: "job__team"}
    for role in ROLES:
        own, stranger = make_user(role), make_user(role, team=make_team("Others"))
        homeless = make_user(role)
        homeless.teams.clear()
        for row in rows:
            found: Any = type(row)._default_manager.filter(pk=row.pk)
            seen = [
                (
                    viewer,
                    visible(found, viewer, team=paths.get(type(row), "team")).exists(),
                    covers(viewer, row),
                )
                for viewer in (own, stranger, homeless)
            ]
            assert seen == [(own, True, True), (stranger, False, False), (homeless, False, False)], row


def test_questions_jobs_operations_and_commands_are_born_with_their_advertiser(
    lindqvist: Deal, northwind: Deal
) -> None:
    part = limit(make_user("Approver"), lindqvist.advertiser)
    for deal in (lindqvist, northwind):
        asked = ask_deal(deal)
        assert asked.advertiser_id == deal.advertiser_id
        job = job_start(
            recipe="book_deal",
            inputs={"deal_id": str(deal.pk)},
            team=deal.team,
            actor="system",
            subject_type="deal",
            subject_id=deal.pk,
        )
        assert job.advertiser_id == deal.advertiser_id
        read = read_ensure(
            purpose=f"test:{deal.pk}",
            task_type="get_media_buys",
            seller=deal.seller,
            arguments={},
            actor="system",
            team=deal.team,
            subject=Subject(type="deal", id=deal.pk),
        )
        assert read.advertiser_id == deal.advertiser_id
        assert advertiser_of("operation", read.pk) == deal.advertiser_id
    for model in (Approval, Job, Operation):
        rows: Any = model._default_manager.all()
        assert set(visible(rows, part).values_list("advertiser", flat=True)) == {lindqvist.advertiser_id}
    steps = visible(Step.objects.all(), part, team="job__team")
    assert set(steps.values_list("job__subject_id", flat=True)) == {lindqvist.pk}


def test_what_is_of_no_advertiser_goes_by_team(lindqvist: Deal) -> None:
    part = limit(make_user("Ad Ops"), lindqvist.advertiser)
    job = job_start(recipe="book_deal", inputs={}, team=lindqvist.team, actor="system")
    assert job.advertiser_id is None
    assert job in visible(Job.objects.all(), part)
    assert job not in visible(Job.objects.all(), make_user("Ad Ops", team=make_team("Others")))


def test_nobody_decides_on_what_they_may_not_see(lindqvist: Deal, northwind: Deal) -> None:
    asked, part = ask_deal(northwind), limit(make_user("Approver"), lindqvist.advertiser)
    with pytest.raises(DecisionRefusedError) as refused:
        approval_decide(approval_id=asked.pk, user=part, verdict="approve", comment="Go.")
    assert refused.value.code == "not_found"
    asked.refresh_from_db()
    assert asked.status == "open"
    assert not asked.decisions.exists()
    assert part not in deciders(asked)
    assert part in deciders(ask_deal(lindqvist))


def test_no_service_moves_what_its_caller_may_not_see(lindqvist: Deal, northwind: Deal) -> None:
    part = limit(make_user("Ad Ops"), lindqvist.advertiser)
    for deal, refused in ((northwind, True), (lindqvist, False)):
        about = {"subject_type": "deal", "subject_id": deal.pk}
        job = job_start(
            recipe="book_deal", inputs={"deal_id": str(deal.pk)}, team=deal.team, actor="system", **about
        )
        before = AuditEntry.objects.count()
        if refused:
            with pytest.raises(InvalidTransitionError, match="teams and advertisers"), transaction.atomic():
                job_cancel(job_id=job.pk, actor=part, reason="No.")
            assert AuditEntry.objects.count() == before
        else:
            assert job_cancel(job_id=job.pk, actor=part, reason="No.").status == "CANCELLED"


def test_people_are_told_of_their_advertisers_alone(lindqvist: Deal, northwind: Deal) -> None:
    whole, part = make_user("Buyer"), limit(make_user("Buyer"), lindqvist.advertiser)
    for person in (whole, part):
        User.objects.filter(pk=person.pk).update(
            mail_notifications=True, email=f"{person.username}@x.example"
        )
    for deal in (lindqvist, northwind):
        notify(kind="test", title="News", about=About(type="deal", id=deal.pk), team=deal.team)
    notify(kind="test", title="To all", team=lindqvist.team)
    assert notifications_of(part).count() == unread_count(part) == 2
    assert notifications_of(whole).count() == unread_count(whole) == 3
    told = Notification.objects.get(subject_id=northwind.pk)
    assert set(mail_recipients(told)) == {whole}
    assert set(mail_recipients(Notification.objects.get(subject_id=lindqvist.pk))) == {whole, part}
    assert set(User.objects.filter(members_of(northwind.team_id, northwind.advertiser_id))) == {whole}


def test_a_brief_for_a_client_one_does_not_buy_for_is_refused_as_unknown(
    lindqvist: Deal, northwind: Deal
) -> None:
    part = limit(make_user("Buyer"), northwind.advertiser)
    campaign = campaign_submit(user=part, raw=brief(advertiser=lindqvist.advertiser.name))
    assert (campaign.status, campaign.advertiser) == ("validation_failed", None)
    assert campaign in visible(type(campaign).objects.all(), part)
    colleague = limit(make_user("Buyer"), lindqvist.advertiser)
    assert campaign not in visible(type(campaign).objects.all(), colleague)


def test_the_api_and_the_pages_know_no_other_clients_ids(lindqvist: Deal, northwind: Deal) -> None:
    part = limit(make_user("Buyer"), lindqvist.advertiser)
    User.objects.filter(pk=part.pk).update(is_staff=True)
    asked = ask_deal(northwind)
    api, desk = APIClient(), Client()
    api.force_authenticate(User.objects.get(pk=part.pk))
    desk.force_login(part)
    listed = api.get("/api/v1/deals/").json()["results"]
    assert [row["id"] for row in listed] == [str(lindqvist.pk)]
    for path in (f"deals/{northwind.pk}/", f"deals/{northwind.reference}/", f"approvals/{asked.pk}/"):
        assert api.get(f"/api/v1/{path}").status_code == 404, path
    for path in (
        f"orders/deal/{northwind.pk}/change/",
        f"tasks_app/approval/{asked.pk}/change/",
        f"audit/deal/{northwind.pk}/trail.csv",
    ):
        assert desk.get(f"/admin/{path}").status_code in (302, 404), path
    assert desk.get(f"/admin/orders/deal/{lindqvist.pk}/change/").status_code == 200


def test_every_model_with_a_team_says_where_its_advertiser_is() -> None:
    found = {
        model.__name__
        for model in apps.get_models()
        if model._meta.app_label in ("tasks_app", "orders", "campaigns")
        and any(field.name == "team" and field.related_model is Team for field in model._meta.fields)
        and (advertiser_path(model, "team") is None or model is Advertiser)
    }
    assert found == set(BY_TEAM)


def test_a_scope_is_read_once_and_needs_no_join(lindqvist: Deal, django_assert_num_queries: Any) -> None:
    part = limit(make_user("Buyer"), lindqvist.advertiser)
    with django_assert_num_queries(1):
        deals, approvals = visible(Deal.objects.all(), part), visible(Approval.objects.all(), part)
    for rows in (deals, approvals):
        text = str(rows.query)
        assert text.count("SELECT") == 1, "the planner knows no sizes of subqueries"
        assert "JOIN" not in text


def test_rights_come_from_roles_alone(django_assert_num_queries: Any) -> None:
    person = make_user("Finance")
    person.user_permissions.add(Permission.objects.get(codename="decide_approval"))
    person = User.objects.get(pk=person.pk)
    with django_assert_num_queries(1):
        held = person.get_all_permissions()
    assert "tasks_app.view_approval" in held
    assert DECIDE not in held
    assert person not in users_with(DECIDE)
    assert person in users_with("tasks_app.view_approval")


def test_every_registered_subject_tells_its_team_and_its_advertiser() -> None:
    for subject_type in scope._owned:
        assert scope.owner_of(subject_type, uuid.uuid4()) == (None, None)


def test_a_notice_for_operators_about_a_teams_own_is_that_teams(lindqvist: Deal) -> None:
    """Whoever may steer elsewhere hears nothing of it, nor who sees other advertisers alone."""
    about = About(type="deal", id=lindqvist.pk)
    notify(kind="test", title="Look", about=about, right="tasks_app.steer_operation")
    note = Notification.objects.get(title="Look")
    assert (note.team_id, note.advertiser_id) == (lindqvist.team_id, lindqvist.advertiser_id)
    elsewhere = make_user("Ad Ops", team=make_team("Elsewhere"))
    assert not notifications_of(elsewhere).filter(pk=note.pk).exists()
    assert unread_count(elsewhere) == 0
    own = make_user("Ad Ops", team=lindqvist.team)
    assert notifications_of(own).filter(pk=note.pk).exists()


def test_an_event_that_no_step_has_taken_is_of_limited_members_its_senders_alone(
    lindqvist: Deal, northwind: Deal
) -> None:
    """Nobody knows yet which advertiser it is about."""
    sender, other = (
        limit(make_user("Ad Ops", team=deal.team), deal.advertiser) for deal in (lindqvist, northwind)
    )
    boss = make_user("Ad Ops", team=lindqvist.team)
    event = OutsideEvent.objects.create(
        team=lindqvist.team, name="signed", idempotency_key="k", digest="d", delivered_by=actor_key(sender)
    )

    def seeing() -> list[bool]:
        return [outside_events_of(one).filter(pk=event.pk).exists() for one in (sender, other, boss)]

    assert seeing() == [True, False, True]
    for subject, seen in ((lindqvist.advertiser, [True, False, True]), (None, [True, True, True])):
        job = job_start(
            recipe="book_deal",
            inputs={"deal_id": str(lindqvist.pk)},
            team=lindqvist.team,
            actor="system",
            subject_type="advertiser" if subject else "",
            subject_id=subject.pk if subject else None,
        )
        OutsideEvent.objects.update(step=job.steps.first())
        assert seeing() == seen


def test_what_steers_many_is_of_limited_members_its_askers_alone(lindqvist: Deal, northwind: Deal) -> None:
    jobs = [
        job_start(
            recipe="book_deal",
            inputs={"deal_id": str(deal.pk)},
            team=deal.team,
            actor="system",
            subject_type="deal",
            subject_id=deal.pk,
        )
        for deal in (lindqvist, northwind)
    ]
    asker = make_user("Ad Ops", team=lindqvist.team)
    limited = make_user("Ad Ops", team=lindqvist.team)
    seat = Membership.objects.get(user=limited)
    seat.every_advertiser = False
    seat.save()
    seat.advertisers.set([lindqvist.advertiser])
    both, one = (
        bulk_start(act="cancel", reason="No.", user=asker, request_id=uuid.uuid4(), ids=ids)
        for ids in ([job.pk for job in jobs], [jobs[0].pk])
    )
    assert set(visible(Job.objects.filter(subject_type="bulk"), limited)) == {one}
    assert set(visible(Job.objects.filter(subject_type="bulk"), asker)) == {both, one}
    assert not covers(User.objects.get(pk=limited.pk), both)
    assert not visible(Step.objects.filter(job=both), limited, team="job__team").exists()
