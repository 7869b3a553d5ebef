"""What is said of a question, against trying it: who decides on it, what its deadline does, how it ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from orders.acts import deal_cancel_ask, deal_withdraw
from orders.ask import Ask
from orders.changes.send import change_ask
from orders.models import Deal
from orders.questions import ask_deal
from orders.selectors import questions_open
from orders.successors import LOST
from orders.waits import question_wait
from orders.ways import ground_of, ways
from tasks_app import clock
from tasks_app.approvals.lapsing import nothing_words, waits_on
from tasks_app.approvals.models import Approval
from tasks_app.approvals.policy_models import OnExpiry
from tasks_app.approvals.presenters import effects_now, rows, still_needed
from tasks_app.approvals.services import DecisionRefusedError, approval_decide, approvals_expire_due
from tasks_app.commands.kill_switch import kill_switch_set
from tasks_app.desk.explain import Explanation, explain, explain_entity, explainers
from tasks_app.jobs.worker import drain
from tasks_app.operations.dispatch import claim_one, claim_sends
from tasks_app.operations.models import Operation
from tasks_app.operations.publish import publish_due
from tasks_app.people.actors import actor_ensure
from tasks_app.people.models import User
from tasks_app.sellers.accounts import AWAITED, ENDED, SWITCHED_OFF, natural_key
from tasks_app.sellers.accounts_told import account_record
from tasks_app.sellers.models import Account, Seller, SellerBreaker
from tests.approvals.deciding import decides
from tests.factories import make_deal, make_seller, make_user
from tests.operations.making import give_back, not_sent, see
from tests.orders.asking import ASKED, asked, deals_lapse
from tests.orders.late import fresh
from tests.orders.live import booked
from tests.support import undone
from tests.ui.pages import page_of, read

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


def _page(question: Approval) -> str:
    client = Client()
    client.force_login(
        make_user("Administrator", is_staff=True), backend="tasks_app.people.holders.RoleBackend"
    )
    return read(client, page_of(question))


def _deal(on_expiry: OnExpiry, held_for: timedelta | None = None) -> Deal:
    """A deal that is asked about, held by its seller so long."""
    deals_lapse(on_expiry)
    held = {"hold_expires_at": (clock.now() + held_for).isoformat()} if held_for else {}
    deal = make_deal(terms=held)
    ask_deal(deal)
    return fresh(deal)


_DEADLINES: dict[str, Callable[[], Deal]] = {
    "it expires": lambda: _deal(OnExpiry.EXPIRE),
    "it waits on": lambda: _deal(OnExpiry.WAIT),
    "it waits on while it is held": lambda: _deal(OnExpiry.WAIT, timedelta(hours=12)),
    "the hold ends it": lambda: _deal(OnExpiry.WAIT, timedelta(hours=2)),
}


@pytest.mark.parametrize("ground", _DEADLINES)
def test_what_is_said_of_a_deadline_happens(ground: str) -> None:
    deal = _DEADLINES[ground]()
    (question,) = questions_open(deal)
    viewer = make_user("Administrator")
    said = [
        explain(question.reference, viewer).otherwise,
        explain(deal.reference, viewer).otherwise,
        question_wait(question, viewer).otherwise,
        nothing_words(question),
    ]
    possible = ways(ground_of(deal, [question]))

    with clock.injected(lambda: question.due_at):
        approvals_expire_due()
    question.refresh_from_db()
    waits = question.status == "open"

    assert waits == (ground in ("it waits on", "it waits on while it is held"))
    for sentence in said:
        assert ("keeps waiting" in sentence, "expires" in sentence) == (waits, not waits), sentence
    assert ("expired" in possible) == (ground != "it waits on")
    by_then = {" by " in possible[to].words for to in ("accepted", "cancelled")}  # type: ignore[index]
    assert by_then == {not waits}


def test_a_question_that_waited_on_says_what_its_next_deadline_does() -> None:
    deal = _DEADLINES["it waits on while it is held"]()
    (question,) = questions_open(deal)
    while waits_on(question):
        with clock.injected(lambda: question.due_at):
            approvals_expire_due()
        question.refresh_from_db()
        assert question.status == "open"
    assert "expires" in explain(deal.reference, make_user("Administrator")).otherwise
    with clock.injected(lambda: question.due_at):
        approvals_expire_due()
    assert fresh(deal).status == "expired"


_OTHERS = {"Approver": "a-Approver", "Ad Ops": "a-Ad Ops", "Buyer": "a-Buyer", "Administrator": "another"}


@pytest.mark.parametrize("what", ASKED)
def test_what_is_said_of_each_question_is_so(what: str) -> None:
    asker = make_user("Administrator", name="asker")
    for role, name in _OTHERS.items():
        make_user(role, name=name)
    question = asked(what, asker)
    for is_so in (
        those_who_are_named_decide_and_nobody_else_does,
        an_expired_one_says_nothing_of_what_was_bought,
        where_two_decide_everything_that_names_it_says_so,
    ):
        with undone():
            is_so(Approval.objects.get(pk=question.pk))


def those_who_are_named_decide_and_nobody_else_does(question: Approval) -> None:
    people = list(User.objects.filter(username__in=["asker", *_OTHERS.values()]))
    told = explain(question.reference, User.objects.get(username="asker"))
    named = {name for one in told.who for name in one.people}
    assert {str(one) for one in people if decides(question, one)} == named & {str(one) for one in people}


def an_expired_one_says_nothing_of_what_was_bought(question: Approval) -> None:
    with clock.injected(lambda: question.due_at):
        approvals_expire_due()
    question.refresh_from_db()
    assert question.status == "expired"
    page = _page(question)
    assert "Expired: nobody decided in time, and that never approves" in page
    assert "nothing was bought" not in page


def where_two_decide_everything_that_names_it_says_so(question: Approval) -> None:
    Approval.objects.filter(pk=question.pk).update(quorum=2)
    question.refresh_from_db()
    viewer, needed = make_user("Administrator"), still_needed(question)
    assert needed == "a second approver is still needed"
    assert needed in effects_now(question)["approve"]
    assert needed in explain(question.reference, viewer).who_words
    told = _speak_of(question, viewer)
    for one in told:
        assert f"decide on {question.reference}; {needed}" in one.who_words, one.entity
    approval_decide(approval_id=question.pk, user=make_user("Approver"), verdict="approve", comment="So.")
    after = _speak_of(question, viewer)
    assert {one.id for one in after} == {one.id for one in told}
    for one in [*after, explain(question.reference, viewer)]:
        assert needed not in one.who_words
        assert (question.reference not in one.waiting_for) or "(1 of 2 are in)" in one.waiting_for


def _withdrawn(deal: Deal) -> None:
    deal_withdraw(deal_id=deal.pk, user=make_user("Buyer", name="mia"), reason="The client left.")


def _changed(deal: Deal) -> None:
    """Its terms changed, and somebody decides on what was shown."""
    question = questions_open(deal)[0]
    deal.lines.update(budget=7)
    with pytest.raises(DecisionRefusedError):
        approval_decide(approval_id=question.pk, user=make_user("Approver"), verdict="approve")


@pytest.mark.parametrize(
    ("voids", "why"),
    [(_withdrawn, "Withdrawn by mia: The client left"), (_changed, "What was shown has changed")],
    ids=["withdrawn", "changed"],
)
def test_a_voided_question_says_why(voids: Callable[[Deal], None], why: str) -> None:
    deal = make_deal()
    ask_deal(deal)
    question = Approval.objects.get()
    voids(fresh(deal))
    question.refresh_from_db()
    assert question.status == "voided"
    viewer = make_user("Administrator")
    assert (
        explain(question.reference, viewer).waiting_for == f"Nothing: nobody decides on it any more. {why}."
    )
    assert f"Voided: {why}" in _page(question)


def _speak_of(question: Approval, viewer: User) -> list[Explanation]:
    """Everything that is explained and names the question."""
    told = [
        explain_entity(kind, row, viewer)
        for kind, explainer in explainers()
        for row in explainer.rows(viewer)[:20]
    ]
    return [one for one in told if any(question.reference in who.does for who in one.who)]


# ---- what approving a deal is said to do, by how its account stands at the seller


def _asked_under(currency: str, *, for_good: bool = False) -> Approval:
    """About a deal whose account is bound to a currency."""
    deal = make_deal()
    bound = {"reference": {**natural_key(deal.advertiser), "currency": currency}} if for_good else {}
    Account.objects.update(said={"currency": currency}, **bound)
    return ask_deal(fresh(deal))


def _asked_about(what: str) -> Approval:
    return asked(what, make_user("Administrator"))


# Asked about before it was approved, and again: its purchase was not what people had approved.
_BOOKINGS: dict[str, Callable[[], Approval]] = {
    "first": lambda: _asked_about("a deal"),
    "again": lambda: _asked_about("a deal that is not what was approved"),
}
# Who asks, and how the account may stand by then.
_ACCOUNTS: dict[str, tuple[Callable[[], Approval], list[str]]] = {
    **{ask: (_BOOKINGS[ask], Account.Status.values) for ask in _BOOKINGS},
    "no account": (lambda: ask_deal(make_deal(account=False)), [""]),
    "its currency": (lambda: _asked_under("USD"), ["active"]),
    "another currency": (lambda: _asked_under("SEK"), Account.Status.values),
    "another currency for good": (lambda: _asked_under("SEK", for_good=True), Account.Status.values),
}


def _left(tool: str = "create_media_buy") -> bool:
    """Whether what is due is a purchase, or a change, that leaves; its seller has a place for all that is."""
    drain()
    Seller.objects.update(slots=9)
    Operation.objects.filter(task_type=tool, send_at__isnull=False).update(send_at=clock.now())
    left = [call.tool for call in claim_sends(limit=9)]
    publish_due(limit=9)
    drain()
    return tool in left


def _approved_and_then(question: Approval) -> str:
    """What came of it: at once, once the account is active, or nothing for good."""
    for _ in range(question.quorum):
        approval_decide(approval_id=question.pk, user=make_user("Approver"), verdict="approve")
    if _left():
        return "sent"
    if Deal.objects.get().status in LOST:
        return "over"
    account = Account.objects.select_related("seller", "advertiser").get()
    account_record(
        advertiser=account.advertiser,
        seller=account.seller,
        answer={"status": "active", **account.reference},
    )
    return "sent once active" if _left() else "stuck"


def _told(question: Approval) -> str:
    """What the sentence says comes of it."""
    (row,) = rows([question], {})
    said = dict(row.answers)["Approve"]
    assert said == effects_now(question)["approve"]
    assert said in _page(question).replace("\N{NO-BREAK SPACE}", " ")
    if "account" not in said:
        assert said == "Places the order at once."
        return "sent"
    return "over" if said.startswith("Nothing is bought") else "sent once active"


@pytest.mark.parametrize("account", _ACCOUNTS)
def test_what_approving_is_said_to_do_under_its_account_happens(account: str) -> None:
    ask, each = _ACCOUNTS[account]
    question = ask()
    for is_now in each:
        with undone():
            Account.objects.update(status=is_now)
            _what_is_said_happens(Approval.objects.get(pk=question.pk), is_now, fits="another" not in account)


def _what_is_said_happens(question: Approval, is_now: str, *, fits: bool) -> None:
    told, said = _told(question), effects_now(question)["approve"]
    assert told == _approved_and_then(question), is_now
    assert (told == "sent", told == "sent once active") == (
        fits and is_now == "active",
        fits and is_now in AWAITED,
    )
    assert fits or is_now in ENDED or "bound to SEK" in said


# Asked about first, and again; a cancellation goes on, whatever its account.
_CHANGES = ("a change", "a change that is not what was approved")


@pytest.mark.parametrize("what", _CHANGES)
def test_what_approving_a_change_is_said_to_do_under_its_account_happens(what: str) -> None:
    question = _asked_about(what)
    for is_now in Account.Status.values:
        with undone():
            Account.objects.update(status=is_now)
            _what_is_said_of_a_change_happens(Approval.objects.get(pk=question.pk))


def _what_is_said_of_a_change_happens(question: Approval) -> None:
    said = effects_now(question)["approve"]
    approval_decide(approval_id=question.pk, user=make_user("Approver"), verdict="approve")
    left = _left("update_media_buy")
    over = Operation.objects.filter(task_type="update_media_buy", settled_at__isnull=False).exists()
    assert said.startswith("Nothing is changed") == over
    assert (said == "Sends the change to the seller at once.") == left
    assert ("once its account is active" in said) == (not left and not over)
    if not left and not over:
        Account.objects.update(status="active")
        assert _left("update_media_buy")


# What is in the way of all that is sent to a seller, and how it is said.
_SELLERS: dict[str, tuple[dict[str, Any], str]] = {
    "off": ({"active": False}, "is switched off"),
    "replays no key": ({"idempotency_ttl_s": None}, "declares no idempotency"),
    "lists no tool": ({"tools": ["get_products"]}, "lists no tool"),
    "left alone": ({}, "failed too often in a row"),
}
_ASKED_TO_SEND = {
    "a deal": ("create_media_buy", "Nothing is bought"),
    "a deal that is not what was approved": ("create_media_buy", "Nothing is bought"),
    "a change": ("update_media_buy", "Nothing is changed"),
    "a change that is not what was approved": ("update_media_buy", "Nothing is changed"),
    "a cancellation": ("update_media_buy", "Nothing is cancelled"),
}


def _asked_to_send(what: str) -> Approval:
    if what != "a cancellation":
        return _asked_about(what)
    deal_cancel_ask(deal_id=booked().pk, user=make_user("Buyer"), reason="the client withdrew")
    return Approval.objects.get(status="open")


def _in_the_way(seller: str) -> None:
    columns, _ = _SELLERS[seller]
    if columns:
        Seller.objects.update(**columns)
    else:
        at = clock.now() + timedelta(minutes=5)
        SellerBreaker.objects.update_or_create(
            seller=Seller.objects.get(), defaults={"state": "open", "failures": 5, "probe_at": at}
        )


@pytest.mark.parametrize("what", _ASKED_TO_SEND)
@pytest.mark.parametrize("seller", _SELLERS)
def test_what_approving_is_said_to_do_at_its_seller_happens(what: str, seller: str) -> None:
    question, (tool, nothing) = _asked_to_send(what), _ASKED_TO_SEND[what]
    _, why = _SELLERS[seller]
    _in_the_way(seller)
    said = effects_now(question)["approve"]
    assert why in said
    with suppress(DecisionRefusedError):  # nothing is asked of a seller for which nothing is sent
        for _ in range(question.quorum):
            approval_decide(approval_id=question.pk, user=make_user("Approver"), verdict="approve")
    assert not _left(tool)
    waits = Operation.objects.filter(task_type=tool, settled_at=None, send_at__isnull=False).exists()
    assert (said.startswith(nothing), "once its seller is called again" in said) == (not waits, waits)
    if waits:
        SellerBreaker.objects.all().delete()
        assert _left(tool)


def _tried_once(what: str) -> Approval:
    """Approved, it left once and its seller said that it is too busy; since then its terms changed, or it was
    asked about anew."""
    question = _asked_to_send(what)
    for _ in range(question.quorum):
        approval_decide(approval_id=question.pk, user=make_user("Approver"), verdict="approve")
    drain()
    operation = Operation.objects.get(settled_at=None, task_type=_ASKED_TO_SEND[what][0])
    assert claim_one(operation_id=operation.pk) is not None
    see(operation, not_sent())
    give_back(operation.pk)
    Account.objects.update(payment_terms="prepay")
    Operation.objects.filter(pk=operation.pk).update(send_at=clock.now())
    assert claim_one(operation_id=operation.pk) is None
    return Approval.objects.get(status="open")


# By what is in the way: how it is said what comes first; None where nothing does.
_AGAIN = {
    "off": "let it pass",
    "replays no key": "risk",
    "lists no tool": None,
    "left alone": "once its seller is called again",
}


@pytest.mark.parametrize("what", ["a change", "a cancellation"])
@pytest.mark.parametrize("seller", _SELLERS)
def test_what_left_once_is_sent_again_as_is_said(what: str, seller: str) -> None:
    question, first = _tried_once(what), _AGAIN[seller]
    tool, _ = _ASKED_TO_SEND[what]
    _in_the_way(seller)
    said = effects_now(question)["approve"]
    approval_decide(approval_id=question.pk, user=make_user("Approver"), verdict="approve")
    assert _left(tool) == (first is None)
    operation = Operation.objects.get(task_type=tool, settled_at=None)
    assert (_SELLERS[seller][1] in said) == (first is not None)
    assert first is None or first in said
    asked_besides = Approval.objects.filter(status="open", subject_type="command").exists()
    assert asked_besides == (seller == "off")
    assert (operation.send_at is None) == asked_besides, "the others wait for it, or have left"


def test_where_everything_is_stopped_only_what_would_be_sent_is_said_to_be_held() -> None:
    question = asked("a deal", make_user("Administrator"))
    kill_switch_set(on=True, reason="A drill", actor="system")
    Account.objects.update(status="rejected")
    assert effects_now(question)["approve"].startswith("Nothing is bought")
    Account.objects.update(status="suspended")
    said = effects_now(question)["approve"]
    assert said.startswith("Nothing leaves now.")
    assert "once its account is active" in said


@pytest.mark.parametrize("status", [*AWAITED, "rejected"])
def test_the_sellers_own_words_of_an_account_end_their_sentence(status: str) -> None:
    question = asked("a deal", make_user("Administrator"))
    Account.objects.update(status=status, said={"message": "Sign the contract first."})
    said = effects_now(question)["approve"]
    assert "Sign the contract first" in said
    assert ".." not in said
    assert ".:" not in said


def test_a_list_reads_all_accounts_at_once(django_assert_max_num_queries: Callable[[int], object]) -> None:
    questions = [ask_deal(make_deal(seller=make_seller(name=f"Seller {n}"))) for n in range(4)]
    Account.objects.update(status="pending_approval")
    with django_assert_max_num_queries(3):  # type: ignore[attr-defined]
        drawn = rows(questions, {})
    assert all("once its account is active" in dict(row.answers)["Approve"] for row in drawn)


def _changes_asked() -> list[Approval]:
    """About changes of several deals, each of its seller."""
    asker = make_user("Administrator")
    for n in range(4):
        deal = booked(make_seller(name=f"Seller {n}"), media_buy_id=f"mb-{n}")
        arguments = {"media_buy_id": deal.media_buy_id, "packages": [{"package_id": "pkg-1", "budget": 9000}]}
        change_ask(Ask(user=asker, task="update_media_buy", seller=deal.seller, arguments=arguments))
    return list(Approval.objects.filter(kind="deal_change", status="open"))


_MANY: dict[str, Callable[[], list[Approval]]] = {
    "bookings": lambda: [ask_deal(make_deal(seller=make_seller(name=f"Seller {n}"))) for n in range(4)],
    "changes": _changes_asked,
}


@pytest.mark.parametrize("what", _MANY)
@pytest.mark.parametrize("status", SWITCHED_OFF)
def test_a_list_names_all_who_switched_accounts_off_at_once(
    django_assert_max_num_queries: Callable[[int], object], what: str, status: str
) -> None:
    questions = _MANY[what]()
    people = [make_user("Ad Ops", name=name) for name in ("Ada", "Ole")]
    for n, account in enumerate(Account.objects.order_by("pk")):
        account.status, account.switched_off_by = status, actor_ensure(user=people[n % 2]).key
        account.save()
    with django_assert_max_num_queries(4):  # type: ignore[attr-defined]
        drawn = rows(questions, {})
    said = [dict(row.answers)["Approve"] for row in drawn]
    assert len(said) == 4
    for name in ("Ada", "Ole"):
        assert any(f"{name} switched it off" in one for one in said)
    assert all("switched it off" in one for one in said)


def test_who_is_no_longer_known_switched_an_account_off_under_their_key() -> None:
    question = ask_deal(make_deal())
    Account.objects.update(status="suspended", switched_off_by="human:gone")
    assert "human:gone switched it off" in effects_now(question)["approve"]
