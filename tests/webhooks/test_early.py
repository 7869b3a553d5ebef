"""A webhook faster than the reply it belongs to: kept, and applied. The seller sends it inside the call."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from tasks_app import clock
from tasks_app.adcp.webhook_body import read_webhook
from tasks_app.lifecycle.verify import verify_entity
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.troubles.models import RowTrouble
from tasks_app.webhooks import early as early_room
from tasks_app.webhooks.early import early_apply, early_apply_due
from tasks_app.webhooks.models import WebhookDelivery
from tests.adcp.raw_server import Request, serve
from tests.factories import make_seller
from tests.operations.making import BOUGHT, answer, ask, fresh, see, stand
from tests.operations.sweeping import answering, arguments, calls, sweep
from tests.support import joined
from tests.troubles.poisoning import heal, poison
from tests.webhooks.conftest import SECRET, Endpoint
from tests.webhooks.signing import hmac, payload, post

SUBMITTED = {"status": "submitted", "task_id": "task-early", "message": "With our reviewer."}


def early(norrland: Seller, **told: Any) -> WebhookDelivery:
    """A delivery that waits."""
    return WebhookDelivery.objects.create(
        seller=norrland,
        key=told.pop("key", "whk-1"),
        fingerprint="0" * 64,
        verdict="early",
        task_id="task-early",
        body=payload(task_id="task-early", token="[redacted]", **told),
    )


@pytest.mark.parametrize("echoes", ["operation_id", "context", "nothing"])
def test_the_end_comes_before_the_reply_that_names_the_task(receiver: Endpoint, echoes: str) -> None:
    answers: list[int] = []

    def hurry(request: Request) -> dict[str, Any]:
        sent = arguments(request)
        config = sent["push_notification_config"]
        body = payload(task_id="task-early", token=config["token"])
        if echoes == "operation_id":
            body["operation_id"] = config["operation_id"]
        if echoes == "context":
            body["context"] = sent["context"]
        answers.append(
            post(config["url"], body, hmac(body, config["authentication"]["credentials"])).status_code
        )
        return SUBMITTED

    with serve(answering(hurry)) as server:
        seller = make_seller(
            f"Hurry {echoes}", url=f"{server.url}/mcp", webhook_mode="hmac", webhook_secret=SECRET
        )
        operation = ask(seller=seller)
        sweep()

    operation = fresh(operation)
    assert answers == [200]
    assert len(calls(server)) == 1
    assert (operation.status, operation.task_id) == (S.COMPLETED, "task-early")
    assert (operation.settled_by, operation.result) == ("webhook", BOUGHT)
    assert operation.published_at is not None
    assert WebhookDelivery.objects.get(seller=seller).verdict == "applied"
    assert verify_entity("operation", operation.pk).ok


def test_a_webhook_for_a_call_whose_reply_is_lost_ends_it(receiver: Endpoint) -> None:
    def drop(request: Request) -> bytes:
        config = arguments(request)["push_notification_config"]
        body = payload(task_id="task-lost", operation_id=config["operation_id"])
        post(config["url"], body, hmac(body, config["authentication"]["credentials"]))
        return b""

    with serve(answering(drop)) as server:
        seller = make_seller("Drops", url=f"{server.url}/mcp", webhook_mode="hmac", webhook_secret=SECRET)
        operation = ask(seller=seller)
        sweep()
        assert sweep().calls == 0, "nothing is sent again"

    assert (fresh(operation).status, fresh(operation).settled_by) == (S.COMPLETED, "webhook")
    assert [o.outcome for o in operation.observations.order_by("id")] == ["applied", "stale"]


def test_waiting_deliveries_are_applied_in_the_order_they_came(norrland: Seller) -> None:
    operation = stand(S.CALLING_ADCP, seller=norrland)
    early(norrland, status="working", key="whk-1")
    early(norrland, key="whk-2")
    early(norrland, key="whk-3", result={"media_buy_id": "mb-2", "packages": []})

    see(operation, answer("submitted", task_id="task-early"))

    assert (fresh(operation).status, fresh(operation).result) == (S.COMPLETED, BOUGHT)
    verdicts = dict(WebhookDelivery.objects.filter(seller=norrland).values_list("key", "verdict"))
    assert verdicts == {"whk-1": "applied", "whk-2": "applied", "whk-3": "conflict"}


@pytest.mark.parametrize("told", [{"task_type": "update_media_buy"}, {"task_id": "task-early"}])
def test_a_waiting_delivery_of_another_task_type_is_a_conflict(
    norrland: Seller, told: dict[str, str]
) -> None:
    operation = stand(S.CALLING_ADCP, seller=norrland)
    delivery = early(norrland, **{k: v for k, v in told.items() if k == "task_type"})

    see(operation, answer("submitted", task_id="task-early"))

    delivery.refresh_from_db()
    meant = "task_type" not in told
    assert delivery.verdict == ("applied" if meant else "conflict")
    assert fresh(operation).status == (S.COMPLETED if meant else S.SUBMITTED)


def test_a_delivery_committed_in_the_same_moment_as_the_reply_is_not_lost(norrland: Seller) -> None:
    """Neither sees the other: the reply binds the task while the delivery is not committed."""
    operation = stand(S.CALLING_ADCP, seller=norrland)
    with transaction.atomic():
        early(norrland)
        reply = threading.Thread(target=_reply, args=(operation,))
        reply.start()
        joined(reply)
    assert fresh(operation).status == S.SUBMITTED, "the reply has not seen it"

    assert sweep().chores["early_applied"] == 1
    assert fresh(operation).status == S.COMPLETED
    assert fresh(operation).published_at is not None
    assert early_apply_due() == 0


def test_two_appliers_and_a_delivery_that_binds_do_not_wait_for_each_other(norrland: Seller) -> None:
    operation = stand(S.SUBMITTED, seller=norrland, task_id="task-early")
    for number in range(12):
        early(norrland, status="working", key=f"whk-{number}")
    failures: list[BaseException] = []

    def apply() -> None:
        try:
            early_apply(operation)
        except BaseException as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=apply) for _ in range(3)]
    for thread in threads:
        thread.start()
    see(operation, answer("completed", task_id="task-early"), "poll")
    joined(*threads)

    assert not failures
    assert fresh(operation).status == S.COMPLETED
    assert operation.observations.count() == 13, "each delivery once"
    assert not WebhookDelivery.objects.filter(seller=norrland, verdict="early").exists()


def test_what_waits_for_a_task_of_nobody_is_left(norrland: Seller) -> None:
    delivery = early(norrland)
    stand(S.SUBMITTED, seller=make_seller(f"Elsewhere {norrland.slug}"), task_id="task-early")

    assert early_apply_due() == 0
    delivery.refresh_from_db()
    assert delivery.verdict == "early"


def test_a_delivery_of_another_seller_under_the_same_task_id_settles_nothing(norrland: Seller) -> None:
    """Whoever may send us webhooks could end another's purchase by naming its task before its reply."""
    other = make_seller(f"Elsewhere {norrland.slug}")
    theirs = early(other, result={"media_buy_id": "mb-theirs", "packages": []})
    operation = stand(S.CALLING_ADCP, seller=norrland)

    see(operation, answer("submitted", task_id="task-early"))

    assert early_apply(fresh(operation)) == early_apply_due() == 0
    theirs.refresh_from_db()
    assert (theirs.verdict, theirs.operation_id) == ("early", None)
    assert (fresh(operation).status, fresh(operation).result) == (S.SUBMITTED, None)
    assert [seen.channel for seen in operation.observations.all()] == ["reply"]


def test_two_sellers_that_number_alike_each_end_their_own(norrland: Seller) -> None:
    other = make_seller(f"Elsewhere {norrland.slug}")
    found = {one: stand(S.SUBMITTED, seller=one, task_id="task-early") for one in (norrland, other)}
    for one in found:
        early(one, result={"media_buy_id": f"mb-{one.slug}", "packages": []})

    assert early_apply_due() == 2

    assert {one: fresh(made).result["media_buy_id"] for one, made in found.items()} == {
        one: f"mb-{one.slug}" for one in found
    }


def test_our_token_in_a_waiting_delivery_is_gone_once_it_is_known(norrland: Seller) -> None:
    operation = stand(S.CALLING_ADCP, seller=norrland)
    token = operation.webhook_token
    delivery = early(norrland, message=f"echo {token}")
    assert token in str(read_webhook(delivery.body)[1].raw), "nobody knew then that it is ours"

    see(operation, answer("submitted", task_id="task-early"))

    delivery.refresh_from_db()
    assert token not in str([delivery.body, fresh(operation).message, list(operation.observations.values())])


def _reply(operation: Operation) -> None:
    try:
        see(operation, answer("submitted", task_id="task-early"))
    finally:
        connection.close()


def test_a_tick_looks_at_what_was_bound_lately_however_much_waits(
    receiver: Endpoint, norrland: Seller, monkeypatch: Any
) -> None:
    """Deliveries of tasks that nobody knows are not gone through: the plan begins at what was seen."""
    monkeypatch.setattr(early_room, "_looked_at", None)
    operation = stand(S.SUBMITTED, seller=norrland, task_id="task-early")
    early(norrland)
    assert early_apply_due() == 1
    assert fresh(operation).status == S.COMPLETED

    hours = [clock.now() + timedelta(hours=number) for number in (1, 2)]
    with clock.injected(lambda: hours[0]):
        early_apply_due()
    late = early(norrland, key="whk-2")
    with clock.injected(lambda: hours[1]):
        assert early_apply_due() == 0, "nothing was seen of its operation since the last look"
    late.refresh_from_db()
    assert late.verdict == "early"


def test_thousands_about_one_task_are_applied_a_few_at_a_time(
    receiver: Endpoint, norrland: Seller, monkeypatch: Any
) -> None:
    """Whoever observes the reply, and the sweep, come back to what else there is in between."""
    monkeypatch.setattr(early_room, "_looked_at", None)
    monkeypatch.setattr(early_room, "_OF_ONE", 4)
    monkeypatch.setattr(early_room, "_AT_ONCE", 6)
    WebhookDelivery.objects.filter(verdict="early").delete()  # of the tests before
    other = stand(S.SUBMITTED, seller=norrland, task_id="task-other")
    operation = stand(S.CALLING_ADCP, seller=norrland)
    for number in range(15):
        early(norrland, status="working", key=f"whk-{number}")
    body = payload(task_id="task-other", token="[redacted]", status="working")
    late = [early(norrland, key=f"whk-other-{number}").pk for number in range(3)]
    WebhookDelivery.objects.filter(pk__in=late).update(task_id="task-other", body=body)

    see(operation, answer("submitted", task_id="task-early"))
    assert operation.observations.count() == 1 + 4, "with the reply that names the task"

    looks = []
    while looks[-1:] != [0]:
        looks.append(early_apply_due())
    assert looks == [6, 4, 4, 0]
    assert operation.observations.count() == 1 + 15
    assert other.observations.count() == 3


def test_a_row_that_cannot_be_handled_holds_nobodys_next_look(
    receiver: Endpoint, norrland: Seller, monkeypatch: Any
) -> None:
    """It is tried when its own trouble is due; everybody else's are looked at since the last look."""
    monkeypatch.setattr(early_room, "_looked_at", None)
    poisoned, well = (stand(S.SUBMITTED, seller=norrland, task_id=f"task-{one}") for one in ("bad", "well"))
    for one in (poisoned, well):
        WebhookDelivery.objects.filter(pk=early(norrland, key=one.task_id).pk).update(
            task_id=one.task_id, body=payload(task_id=one.task_id, token="[redacted]")
        )
    poison("tasks_app_operation", poisoned.pk)
    early_apply_due()
    assert (fresh(poisoned).status, fresh(well).status) == (S.SUBMITTED, S.COMPLETED)
    assert RowTrouble.objects.get(row=poisoned.pk).times == 1

    hours = [clock.now() + timedelta(hours=number) for number in (1, 2, 3)]
    with clock.injected(lambda: hours[0]):
        assert early_apply_due() == 0
    assert RowTrouble.objects.get(row=poisoned.pk).times == 2, "tried again, when it was due"
    early(norrland, key="whk-late")
    WebhookDelivery.objects.filter(key="whk-late").update(task_id="task-well")
    with clock.injected(lambda: hours[1]):
        assert early_apply_due() == 0
    assert RowTrouble.objects.get(row=poisoned.pk).times == 3
    assert WebhookDelivery.objects.get(seller=norrland, key="whk-late").verdict == "early"

    heal("tasks_app_operation")
    with clock.injected(lambda: hours[2]):
        assert early_apply_due() == 1
    assert fresh(poisoned).status == S.COMPLETED
    assert not RowTrouble.objects.filter(row=poisoned.pk).exists()
