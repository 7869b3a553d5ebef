"""Under the kill switch: every page says who stopped it and why, nothing says that a seller or a worker is at
it, and to let one pass takes two people, outside the queue."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from campaigns.explain import _unsent, progress_of
from campaigns.explain_words import Progress, campaign_answers
from campaigns.models import Campaign
from campaigns.services import campaign_submit
from orders.models import Deal
from orders.questions import DIFFERENT
from orders.services import deal_book
from orders.unclaimed.question import UNCLAIMED
from tasks_app.approvals import kinds, selectors
from tasks_app.approvals.models import Approval, Decision
from tasks_app.approvals.presenters import effects_now, effects_of
from tasks_app.approvals.services import DecisionRefusedError, approval_decide
from tasks_app.approvals.telling import approvals_tell
from tasks_app.commands.kill_switch import kill_switch_set, stops
from tasks_app.commands.models import Command, KillSwitch
from tasks_app.commands.questions import STOPPED, gates_ask_again
from tasks_app.commands.services import command_pass
from tasks_app.desk.explain import explain
from tasks_app.jobs.awaited import awaited_by
from tasks_app.jobs.models import Job, Step
from tasks_app.jobs.waits import wait_of
from tasks_app.jobs.worker import drain
from tasks_app.lifecycle.transitions import transition
from tasks_app.notifications.models import Notification
from tasks_app.operations.models import Operation
from tasks_app.operations.ordering import order_command
from tasks_app.operations.presenters import operation_next
from tasks_app.people.models import User
from tasks_app.sellers.models import Seller
from tests.campaigns.briefs import brief
from tests.factories import (
    approve_deal,
    make_account,
    make_advertiser,
    make_deal,
    make_seller,
    make_team,
    make_user,
)
from tests.orders.asking import ASKED
from tests.orders.asking import asked as ask
from tests.orders.late import booking, overdue, say
from tests.ui.pages import drawn, page_of, read

pytestmark = pytest.mark.django_db
SWITCH = reverse("admin:tasks_app_killswitch_changelist")
MONITOR = reverse("admin:tasks_app_operation_changelist")
QUEUE = reverse("admin:tasks_app_approval_changelist")
_UNTRUE = re.compile(
    r"A worker sends|waits for sellers to confirm|has the purchase|being sent|Is sent at once"
)


def staff(role: str, name: str = "") -> User:
    user = make_user(role, name=name)
    User.objects.filter(pk=user.pk).update(is_staff=True)
    return User.objects.get(pk=user.pk)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user, backend="tasks_app.people.holders.RoleBackend")
    return client


@pytest.fixture
def ada() -> User:
    return staff("Administrator", name="ada")


@pytest.fixture
def held(ada: User) -> Deal:
    """A deal that people approved and whose job is about to book it, when Ada stops everything."""
    deal = make_deal()
    approve_deal(deal)
    kill_switch_set(on=True, reason="Wrong rates", actor=ada)
    drain()
    deal.refresh_from_db()
    return deal


def let_go(ada: User) -> None:
    turned_off(ada)
    gates_ask_again()


def turned_off(ada: User) -> None:
    standing = stops().turns[None]
    kill_switch_set(on=False, reason="Rates are right", actor=ada, seen=str(standing.turn))


def override() -> Approval:
    return Approval.objects.get(kind=STOPPED, status="open")


def test_what_is_explained_says_who_stopped_it_and_why(held: Deal, ada: User) -> None:
    """The deal, its job, the operation, and the step: none waits for a seller, or a worker."""
    operation, job = Operation.objects.filter(subject_id=held.pk).first(), Job.objects.get(subject_id=held.pk)
    things = [held.reference, job.reference, *([operation.reference] if operation else [])]
    for named in things:
        told = explain(named, ada)
        said = f"{told.waiting_for} {told.otherwise}"
        assert "Stopped by ada" in said, named
        assert "Wrong rates" in said, named
        assert not _UNTRUE.search(said), (named, said)
    let_go(ada)
    for named in things:
        assert "Stopped" not in explain(named, ada).waiting_for, named


def test_a_campaign_tells_what_is_not_sent_and_what_is_with_sellers(held: Deal) -> None:
    assert _unsent([held]) == {held.pk}
    words = "Stopped by ada, today: x"
    progress = Progress(status="executing_bookings", out=1, unsent=2, job="JOB-1", stopped=words)
    said = campaign_answers(progress).waiting
    assert said.startswith(f"{words}. 2 deals are approved and not sent.")
    assert said.endswith("It waits for sellers to confirm 1 deal besides.")


def test_a_campaign_whose_deal_is_not_sent_is_explained_by_who_stopped_it(ada: User) -> None:
    seller = make_seller()
    account = make_account(make_advertiser(), seller)
    campaign = campaign_submit(
        user=make_user("Buyer"), raw=brief(brand_domain=make_advertiser().brand_domain)
    )
    for step in ("budget_allocated", "researching", "awaiting_approval", "executing_bookings"):
        transition(campaign, step, actor="system")
    deal = make_deal(seller=seller, account=False, campaign_id=campaign.pk)
    Deal.objects.filter(pk=deal.pk).update(account=account)
    approve_deal(Deal.objects.get(pk=deal.pk))
    kill_switch_set(on=True, reason="Wrong rates", actor=ada)
    said = explain(campaign.reference, ada).waiting_for
    assert said.startswith("Stopped by ada, ")
    assert "Wrong rates. 1 deal is approved and not sent." in said
    let_go(ada)
    assert "Stopped" not in explain(campaign.reference, ada).waiting_for


def researching(*sellers: str) -> Campaign:
    """Its job asks sellers with whom its advertiser has no account yet."""
    for name in sellers:
        make_seller(name, tools=["get_products", "create_media_buy", "sync_accounts"])
    raw = brief(brand_domain=make_advertiser("Lindqvist Coffee").brand_domain)
    campaign = campaign_submit(user=make_user("Buyer"), raw=raw)
    drain()
    return campaign


@pytest.mark.parametrize("when", ["before", "since"])
def test_research_that_is_stopped_at_opening_an_account_says_so(ada: User, when: str) -> None:
    """Stopped when the account is to be opened, or once that was asked for and has not left."""
    if when == "before":
        kill_switch_set(on=True, reason="Wrong rates", actor=ada)
    make_account(make_advertiser("Lindqvist Coffee"), make_seller())
    campaign = researching("Vasa", "Quill")
    if when == "since":
        assert explain(campaign.reference, ada).waiting_for == "It waits for sellers to say what they have."
        kill_switch_set(on=True, reason="Wrong rates", actor=ada)
    told = explain(campaign.reference, ada)
    assert re.fullmatch(
        r"Stopped by ada, .*: Wrong rates. Opening an account with 2 sellers waits at a gate. "
        r"It waits for 1 seller besides.",
        told.waiting_for,
    )
    assert told.otherwise == "Nothing leaves while it is stopped."
    stored = Campaign.objects.get(pk=campaign.pk)
    does = [mover.does for mover in campaign_answers(progress_of(stored)).movers]
    passes = "two of them together: let one pass"
    if when == "before":  # people are asked already
        first, second = Approval.objects.filter(kind="kill_switch", status="open").order_by("due_at")
        each = f"each of {first.reference} and {second.reference}"
        passes = f"decide on {each}; a second approver is still needed"
    assert does[:2] == ["let the kill switch go; then it is opened", passes]
    let_go(ada)
    assert explain(campaign.reference, ada).waiting_for == "It waits for sellers to say what they have."


def test_research_that_waits_at_another_gate_names_its_question(ada: User) -> None:
    campaign = researching("Vasa")
    operation = Operation.objects.get(task_type="sync_accounts")
    Seller.objects.update(active=False)
    Operation.objects.filter(pk=operation.pk).update(attempts=1)
    assert not command_pass(command_id=order_command(operation).pk, repeated=True)
    asked = Approval.objects.get(subject_type="command")
    said = explain(campaign.reference, ada).waiting_for
    assert said.startswith(f"It waits for people to decide: {asked.reference}, “{asked.title}”")
    assert said.endswith("Opening an account with 1 seller waits at a gate.")


def test_a_step_says_what_it_waits_for(held: Deal, ada: User) -> None:
    """At the gate, and with what was asked for and has not left."""
    step = Step.objects.get(job__subject_id=held.pk, waiting_for__type="approvals")
    asked = override()
    said = waiting_words(step)
    assert re.fullmatch(
        rf"Stopped by ada, .*: Wrong rates; it goes on .*, or two people pass {asked.reference}", said
    )
    operation = deal_book(deal=approved_deal())
    step.waiting_for = {"type": "operation", "id": str(operation.pk)}
    said = waiting_words(step)
    assert said.endswith(f"Wrong rates; create_media_buy is not sent to {operation.seller.name}")
    turned_off(ada)
    assert "Stopped" not in waiting_words(step)


def approved_deal() -> Deal:
    deal = make_deal(seller=make_seller("Vasa"))
    approve_deal(deal)
    return deal


def waiting_words(step: Step) -> str:
    wait = wait_of(step, awaited_by([step]))
    assert wait is not None
    return wait.words


def test_an_order_that_has_not_left_is_held_and_counted(ada: User) -> None:
    deal = make_deal()
    approve_deal(deal)
    operation = deal_book(deal=deal)
    client = signed_in(ada)
    kill_switch_set(on=True, reason="Wrong rates", actor=ada)
    assert operation_next(operation).what == "Stopped by the kill switch"
    told = explain(operation.reference, ada)
    assert "Stopped by ada" in told.waiting_for
    assert not _UNTRUE.search(f"{told.waiting_for} {told.otherwise}")
    Operation.objects.filter(pk=operation.pk).update(send_at=None)  # taken off the way, at the gate
    monitor = client.get(reverse("admin:tasks_app_operation_changelist"))
    assert (monitor.context["for_people"], monitor.context["for_people_words"]) == (
        1,
        "1 held before sending",
    )
    people = client.get(reverse("admin:tasks_app_operation_changelist") + "?view=person")
    assert [row.operation for row in people.context["rows"]] == [operation]
    assert "Stopped by the kill switch" in people.content.decode()


def test_an_approval_says_that_nothing_leaves_now(ada: User) -> None:
    approval = ask("a deal", make_user("Buyer"))
    assert effects_now(approval)["approve"].startswith("Places the order")
    kill_switch_set(on=True, reason="Wrong rates", actor=ada)
    said = effects_now(approval)["approve"]
    assert said.startswith("Nothing leaves now. Stopped by ada, ")
    assert said.endswith(": Wrong rates. Once that is let go: places the order at once.")
    assert "Once that is let go: places the order at once" in read(
        signed_in(staff("Approver")), page_of(approval)
    )


def _booked_without_a_name() -> Approval:
    _, operation = booking()
    say(operation, "completed", {"packages": []})
    return Approval.objects.get(kind=DIFFERENT, status="open")


def _late_without_a_name() -> Approval:
    _, operation = booking()
    overdue(operation)
    say(operation, "completed", {"packages": []})
    return Approval.objects.get(kind=UNCLAIMED, status="open")


# Answers that are sent to the seller, of questions where they are not; and what they do there.
UNSENT: dict[str, tuple[Callable[[], Approval], str, str]] = {
    "booked without a name": (_booked_without_a_name, "reject", "Calls the deal off"),
    "bought late without a name": (_late_without_a_name, "reject", "Sends nothing"),
}


@pytest.mark.parametrize("what", UNSENT)
def test_what_sends_nothing_is_not_said_to_be_held(ada: User, what: str) -> None:
    asked, answer, does = UNSENT[what]
    approval = asked()
    kill_switch_set(on=True, reason="Wrong rates", actor=ada)
    assert effects_of(approval)[answer].startswith(does)


def test_every_answer_that_is_sent_is_known_as_such() -> None:
    """An effect that speaks of sending or asking the seller is held with everything else."""
    sends = re.compile(r"\b(Sends|Asks the seller|Goes out)\b")
    for kind in kinds._kinds.values():
        found = {answer for answer, said in kind.effects.items() if sends.search(said)}
        assert found <= kind.sends, kind.name
    assert {"deal", "deal_change", "answer"} <= {k.name for k in kinds._kinds.values() if k.sends}
    assert {what for what, (kind, _) in ASKED.items() if kind == STOPPED}, "and overrides are asked for"


def test_to_pass_takes_two_people_outside_the_queue(held: Deal) -> None:
    question = override()
    first, second = staff("Approver"), staff("Approver")
    assert question.quorum == 2
    assert question not in selectors.approvals_waiting_for(first)
    assert question.reference not in read(signed_in(first), QUEUE)
    assert question.reference not in read(signed_in(first), f"{QUEUE}?view=team")
    assert question.title in read(signed_in(first), f"{QUEUE}?view=mine&kind={STOPPED}")
    (way,) = re.findall(r'href="([^"]+)">Asked to pass<', signed_in(first).get(QUEUE).content.decode())
    assert question.title in read(signed_in(first), way.replace("&amp;", "&"))
    approvals_tell()
    assert not Notification.objects.filter(kind="approval_waits").exists()

    approval_decide(approval_id=question.pk, user=first, verdict="approve")
    assert Command.objects.get(waiting_since__isnull=False).overrides == []
    with pytest.raises(DecisionRefusedError, match="already"):
        approval_decide(approval_id=question.pk, user=first, verdict="approve")
    approval_decide(approval_id=question.pk, user=second, verdict="approve")
    drain()
    held.refresh_from_db()
    assert held.status == "booking"
    assert Decision.objects.filter(approval=question).count() == 2
    assert stops().everywhere == "Wrong rates", "for everything else it stays on"


def again(ada: User) -> None:
    turned_off(ada)
    kill_switch_set(on=True, reason="Fraud", actor=ada)


def test_who_let_it_pass_one_stop_let_it_pass_no_other(held: Deal, ada: User) -> None:
    question = override()
    for approver in (staff("Approver"), staff("Approver")):
        approval_decide(approval_id=question.pk, user=approver, verdict="approve")
    again(ada)
    drain()
    held.refresh_from_db()
    assert held.status == "accepted", "nobody has read why it is stopped now"
    assert "Fraud" in str(override().evidence["why"])


def test_nor_by_a_question_that_was_put_before(held: Deal, ada: User) -> None:
    question = override()
    approval_decide(approval_id=question.pk, user=staff("Approver"), verdict="approve")
    again(ada)
    with pytest.raises(DecisionRefusedError, match="asked anew"):
        approval_decide(approval_id=question.pk, user=staff("Approver"), verdict="approve")
    drain()
    held.refresh_from_db()
    assert held.status == "accepted"
    assert override() != question
    assert "Fraud" in str(override().evidence["why"])


def test_who_let_it_pass_two_stops_let_it_pass_the_one_that_stays(held: Deal, ada: User) -> None:
    kill_switch_set(on=True, reason="Theirs", actor=ada, team=held.team)
    first, second = staff("Approver"), staff("Approver")
    with pytest.raises(DecisionRefusedError, match="asked anew"):
        approval_decide(approval_id=override().pk, user=first, verdict="approve")
    question = override()
    approval_decide(approval_id=question.pk, user=first, verdict="approve")
    turned_off(ada)
    approval_decide(approval_id=question.pk, user=second, verdict="approve")
    drain()
    held.refresh_from_db()
    assert held.status == "booking"


def test_letting_go_sends_what_waited_without_anybody(held: Deal, ada: User) -> None:
    let_go(ada)
    drain()
    held.refresh_from_db()
    assert held.status == "booking"
    assert not Approval.objects.filter(kind=STOPPED, status="open").exists()


def test_the_banner_comes_with_the_stop_and_goes_with_it(ada: User) -> None:
    """It is on every page: tests/ui/test_matrix.py walks them."""
    client = signed_in(ada)
    assert "fd-stopped" not in client.get(QUEUE).content.decode()
    kill_switch_set(on=True, reason="Wrong <b>rates</b>", actor=ada)
    shown = client.get(QUEUE).content.decode()
    assert 'class="fd fd-stopped" role="alert"' in shown
    assert "Stopped by ada" in shown
    assert "Wrong &lt;b&gt;rates&lt;/b&gt;" in shown
    let_go(ada)
    assert "fd-stopped" not in client.get(QUEUE).content.decode()


def test_the_banner_is_of_those_whom_it_stops(ada: User) -> None:
    other = make_team("Another")
    elsewhere = make_user("Administrator", team=other)
    User.objects.filter(pk=elsewhere.pk).update(is_staff=True)
    kill_switch_set(on=True, reason="Theirs", actor="system", team=other)
    assert "fd-stopped" not in signed_in(ada).get(QUEUE).content.decode()
    assert (
        "Another: nothing that changes"
        in signed_in(User.objects.get(pk=elsewhere.pk)).get(QUEUE).content.decode()
    )
    assert "fd-stopped" not in Client().get(reverse("admin:login")).content.decode()


def test_its_page_has_one_red_button_and_says_how_to_let_go(held: Deal, ada: User) -> None:
    client: Any = signed_in(ada)
    on = read(client, SWITCH)
    for words in (
        "Stopped by ada",
        "Resume all teams",
        "Reason for resuming",
        "Two people approve it",
        "Exceptions asked for 1",
    ):
        assert words in on, words
    assert "bg-red-600" not in client.get(SWITCH).content.decode(), "all is stopped already"
    add = reverse("admin:tasks_app_killswitch_add")
    refused = client.post(add, {"team": "", "reason": " "}, follow=True)
    assert KillSwitch.objects.count() == 1
    assert refused.redirect_chain[-1][0] == SWITCH
    client.post(add, {"team": "", "reason": "Rates are right", **drawn(client, SWITCH)})
    assert stops().everywhere is None
    off = client.get(SWITCH).content.decode()
    assert off.count("bg-red-600 border-transparent") == 1
    assert "Whose commands are stopped" in off
    reader = staff("Ad Ops")
    assert "Whose commands are stopped" not in signed_in(reader).get(SWITCH).content.decode()
