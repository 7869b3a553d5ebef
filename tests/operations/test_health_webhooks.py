"""Webhooks that do not come: the seller is polled for a while, people are told, and it is tried again."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tasks_app import clock
from tasks_app.adcp.types import Capabilities
from tasks_app.desk.text import SPACE
from tasks_app.notifications.models import Notification
from tasks_app.notifications.moments import render_moments
from tasks_app.notifications.selectors import notifications_of
from tasks_app.operations import policy
from tasks_app.operations.asking import operation_ensure
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.webhook_health import rates, webhook_state, webhooks_judge
from tasks_app.sellers.health import WebhookState
from tasks_app.sellers.models import Seller
from tests.clocks import Clock
from tests.factories import make_seller, make_team, make_user
from tests.operations.making import answer, see, stand

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
PAUSE = timedelta(hours=1)


@pytest.fixture
def time(still: Clock) -> Clock:
    still.now = NOON
    return still


@pytest.fixture
def seller() -> Seller:
    return hooked()


def hooked(name: str = "Norrland Digital") -> Seller:
    return make_seller(name, webhook_mode="hmac", webhook_secret="s" * 40)


def settled(
    seller: Seller, channel: str, *, confirmed: bool = False, task: str = "create_media_buy"
) -> Operation:
    """One that was submitted and settled by `channel`; `confirmed`: a webhook said the same later."""
    number = Operation.objects.count()
    operation = stand(S.SUBMITTED, task, seller=seller, task_id=f"t-{number}")
    end = answer("completed", task_id=f"t-{number}")
    see(operation, end, channel)
    if confirmed:
        see(operation, end, "webhook")
    return operation


def many(seller: Seller, *, came: int, lost: int) -> None:
    for _ in range(came):
        settled(seller, "webhook")
    for _ in range(lost):
        settled(seller, "poll")


def counted(seller: Seller) -> tuple[int, int]:
    rate = rates([seller])[seller.pk]
    return rate.came, rate.due


def state(seller: Seller) -> WebhookState:
    return webhook_state(Seller.objects.get(pk=seller.pk), clock.now())


def test_a_poll_that_a_webhook_confirms_counts_as_come(seller: Seller, time: Clock) -> None:
    settled(seller, "webhook")
    settled(seller, "poll", confirmed=True)
    settled(seller, "poll")
    settled(seller, "reconcile")
    time.forward(minutes=10)
    assert counted(seller) == (2, 4)


def test_what_no_webhook_could_have_told_does_not_count(seller: Seller, time: Clock) -> None:
    settled(seller, "reply")  # a first answer that is final is followed by none
    settled(seller, "human")
    settled(seller, "poll", task="get_products")  # reads register none
    stand(S.SUBMITTED, seller=seller, task_id="open")
    given_up = stand(S.TIMED_OUT, seller=seller, task_id="given-up")
    Operation.objects.filter(pk=given_up.pk).update(settled_at=clock.now())
    Seller.objects.filter(pk=seller.pk).update(webhook_mode="none")
    settled(Seller.objects.get(pk=seller.pk), "poll")  # sent while it had none
    time.forward(minutes=10)
    assert counted(seller) == (0, 0)


def test_a_webhook_that_contradicts_or_is_not_final_confirms_nothing(seller: Seller, time: Clock) -> None:
    contradicted = settled(seller, "poll")
    see(contradicted, answer("completed", task_id="t-0", payload={"media_buy_id": "another"}), "webhook")
    working = stand(S.SUBMITTED, seller=seller, task_id="w")
    see(working, answer("working", task_id="w"), "webhook")
    see(working, answer("completed", task_id="w"), "poll")
    time.forward(minutes=10)
    assert counted(seller) == (0, 2)


def test_a_webhook_may_still_come_within_the_grace(seller: Seller, time: Clock) -> None:
    settled(seller, "poll")
    time.forward(minutes=9, seconds=59)
    assert counted(seller) == (0, 0)
    time.forward(seconds=1)
    assert counted(seller) == (0, 1)
    time.forward(days=91)
    assert counted(seller) == (0, 0), "what is older than three months says nothing of now"


def test_of_few_the_window_is_widened_until_there_are_enough(seller: Seller, time: Clock) -> None:
    """One purchase in three days: judged by its latest ten."""
    for number in range(12):
        settled(seller, "webhook" if number < 5 else "poll")
        assert webhooks_judge() == 0
        time.forward(days=3)
        if number == 8:
            assert counted(seller) == (5, 9), "not enough yet"
        if number == 9:
            break
    assert counted(seller) == (5, 10)
    assert webhooks_judge() == 1
    assert state(seller) == WebhookState.PAUSED


def test_where_a_day_has_enough_nothing_older_counts(seller: Seller, time: Clock) -> None:
    many(seller, came=0, lost=6)
    time.forward(days=2)
    many(seller, came=1, lost=0)
    time.forward(minutes=1)
    many(seller, came=9, lost=1)
    time.forward(minutes=10)
    assert counted(seller) == (10, 11)
    assert webhooks_judge() == 0
    time.forward(hours=24)
    assert counted(seller) == (9, 10), "the latest ten"


@pytest.mark.parametrize(
    ("came", "lost", "switched"), [(7, 3, True), (8, 2, False), (0, 9, False), (0, 10, True)]
)
def test_under_eighty_percent_of_at_least_ten(
    seller: Seller, time: Clock, came: int, lost: int, switched: bool
) -> None:
    many(seller, came=came, lost=lost)
    time.forward(minutes=10)
    assert webhooks_judge() == switched
    assert state(seller) == (WebhookState.PAUSED if switched else WebhookState.TRUSTED)
    assert Notification.objects.count() == switched


def test_operators_are_told_what_is_done_and_until_when(seller: Seller, time: Clock) -> None:
    many(seller, came=7, lost=3)
    time.forward(minutes=10)
    webhooks_judge()
    (note,) = notifications_of(make_user("Ad Ops"))
    assert note.title == "Webhooks of Norrland Digital do not come: it is polled"
    assert render_moments(note.body, "UTC") == (
        f"7 of the latest 10 operations were told of by webhook (70{SPACE}%). Under 80{SPACE}% it is polled "
        f"as if it sent none, until Wed{SPACE}18{SPACE}Nov, 13:10 UTC; then its webhooks are tried again. "
        "They are still registered, and taken when they come."
    )
    assert (note.level, note.subject_type, note.subject_id) == ("warning", "seller", seller.pk)
    assert not notifications_of(make_user("Buyer")).exists()


def test_while_paused_it_is_polled_as_if_it_had_none_and_still_asked_for_webhooks(
    seller: Seller, time: Clock
) -> None:
    operation = stand(S.SUBMITTED, seller=seller, task_id="a")
    wait = {"status": S.SUBMITTED, "now": time.now, "retry_after_s": None}
    assert policy.next_poll(operation, **wait) - time.now >= timedelta(seconds=90)
    Seller.objects.filter(pk=seller.pk).update(webhook_paused_until=time.now + PAUSE)
    operation = Operation.objects.select_related("seller").get(pk=operation.pk)
    assert policy.next_poll(operation, **wait) - time.now <= timedelta(seconds=80)

    made = operation_ensure(
        purpose="while paused",
        task_type="create_media_buy",
        seller=Seller.objects.get(pk=seller.pk),
        arguments={},
        actor="system",
        team=make_team(),
    )
    assert json.loads(made.request_text)["push_notification_config"]["operation_id"] == str(made.pk)


def test_after_the_pause_it_is_tried_and_trusted_again(seller: Seller, time: Clock) -> None:
    many(seller, came=0, lost=10)
    time.forward(minutes=10)
    webhooks_judge()
    many(seller, came=0, lost=10)  # while paused: counts neither now nor later
    time.forward(minutes=59)
    assert webhooks_judge() == 0
    time.forward(minutes=1)
    assert state(seller) == WebhookState.TRIAL
    assert Seller.objects.get().webhooks_trusted(time.now)
    many(seller, came=9, lost=0)
    time.forward(minutes=10)
    assert webhooks_judge() == 0, "nine are no sample"
    many(seller, came=1, lost=0)
    time.forward(minutes=10)
    assert webhooks_judge() == 1
    assert state(seller) == WebhookState.TRUSTED
    note = Notification.objects.latest("pk")
    assert note.title == "Webhooks of Norrland Digital come again"
    assert note.body.startswith(f"10 of the latest 10 operations were told of by webhook (100{SPACE}%).")

    time.forward(minutes=2)
    assert webhooks_judge() == 0, "what was lost before the trial is not held against it"
    assert state(seller) == WebhookState.TRUSTED


def test_a_trial_that_fails_pauses_again_and_says_so(seller: Seller, time: Clock) -> None:
    many(seller, came=0, lost=10)
    time.forward(minutes=10)
    webhooks_judge()
    time.forward(hours=1)
    many(seller, came=3, lost=7)
    time.forward(minutes=10)
    assert webhooks_judge() == 1
    assert state(seller) == WebhookState.PAUSED
    assert Notification.objects.latest("pk").title.startswith(
        "Webhooks of Norrland Digital still do not come"
    )
    assert Notification.objects.count() == 2


def test_each_seller_is_judged_alone_and_once_a_minute(time: Clock, django_assert_num_queries: Any) -> None:
    lost, fine = hooked("Lost"), hooked("Fine")
    make_seller("Silent")  # sends none
    many(lost, came=0, lost=10)
    many(fine, came=10, lost=0)
    time.forward(minutes=10)
    assert webhooks_judge() == 1
    assert (state(lost), state(fine)) == (WebhookState.PAUSED, WebhookState.TRUSTED)
    with django_assert_num_queries(1):
        assert webhooks_judge() == 0
    time.forward(minutes=1)
    webhooks_judge()
    assert Seller.objects.get(pk=fine.pk).webhook_checked_at == time.now


def test_the_settings_decide(seller: Seller, time: Clock, settings: Any) -> None:
    settings.WEBHOOK_RATE_MIN, settings.WEBHOOK_RATE_SAMPLE = 0.5, 4
    settings.WEBHOOK_PAUSE, settings.WEBHOOK_GRACE = timedelta(hours=3), timedelta(0)
    many(seller, came=1, lost=3)
    assert webhooks_judge() == 1
    assert Seller.objects.get().webhook_paused_until == time.now + timedelta(hours=3)


def test_asking_a_seller_again_does_not_undo_the_pause(seller: Seller, time: Clock) -> None:
    from tasks_app.sellers.services import _keep

    many(seller, came=0, lost=10)
    time.forward(minutes=10)
    webhooks_judge()
    heard = Capabilities(agent_name="n", version="3.2", supported_versions=("3.2",), tools=frozenset())
    known_at = (seller.url, seller.protocol)
    _keep(seller, {"slots": 7}, heard, known_at=known_at, actor=make_user("Ad Ops"), reason="")
    assert Seller.objects.get().slots == 7
    assert state(seller) == WebhookState.PAUSED
