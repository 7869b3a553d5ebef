"""The sales desk: books a create_media_buy, and moves what waits when its time comes.

A buy and its task, next step and webhook are written in one transaction, so that a killed process knows
after its restart what was promised and goes on.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

from adcp.exceptions import IdempotencyConflictError
from adcp.server.idempotency import canonical_json_sha256

from demo.sellers import clock
from demo.sellers.accounts import account_resolve
from demo.sellers.books import Books
from demo.sellers.catalogue import House, Product, Rule
from demo.sellers.orders import confirmed_package, order_flight, order_lines, order_rule, trimmed
from demo.sellers.post import Post

#: Steps of each waiting rule: (paces after the request, action).
_STEPS: dict[Rule, tuple[tuple[float, str], ...]] = {
    "review": ((1.0, "confirm"),),
    "clearance": ((0.5, "progress"), (1.25, "confirm")),
    "question": ((1.5, "confirm"),),
}
_OPEN_STATUS = {"review": "submitted", "clearance": "working", "question": "input-required"}
_DATES_AND_BUDGET = ("increase_budget", "decrease_budget", "update_flight_dates")
_ACTIONS = {
    "pending_creatives": ("cancel", *_DATES_AND_BUDGET),
    "pending_start": ("cancel", *_DATES_AND_BUDGET),
    "active": ("cancel", "pause", *_DATES_AND_BUDGET),
    "paused": ("cancel", "resume", *_DATES_AND_BUDGET),
}
_PUT_OFF_SECONDS = 60.0
#: A task or buy in one of these changes no more.
TERMINAL = frozenset({"completed", "failed", "canceled", "rejected"})


class Desk:
    """One seller's desk. `pace` is the seconds a review takes."""

    def __init__(self, house: House, books: Books, post: Post, *, pace: float) -> None:
        self._house = house
        self._books = books
        self._post = post
        self._pace = pace

    def book(self, request: dict[str, Any], *, scope: str) -> dict[str, Any]:
        """Answer a create_media_buy; `scope` is the buyer the idempotency key belongs to.

        Raises:
            AdcpError: the request cannot be booked as it stands.
            IdempotencyConflictError: the key already bought something else.
        """
        fingerprint = canonical_json_sha256(request)
        earlier = self._books.answer_to(scope, request["idempotency_key"])
        if earlier is not None:
            return _replay(earlier, fingerprint)
        lines = order_lines(self._house, request)
        flight = order_flight(request)
        push = self._post.subscription(request.get("push_notification_config"))
        rule, product = order_rule(lines)
        if rule == "refuse":
            return _rejection(product)
        with self._books.transaction():
            account = account_resolve(self._books, self._house, request["account"])
            media_buy_id = f"{self._house.slug}-mb-{uuid.uuid4().hex[:12]}"
            packages = [confirmed_package(line, n, media_buy_id, flight) for n, line in enumerate(lines)]
            buy = _new_buy(request, media_buy_id, account, packages, currency=lines[0][2].currency)
            buy["trafficked"] = all(line[1].creatives == "trafficked" for line in lines)
            if rule == "at_once":
                _confirm(buy)
                answer = buy_answer(buy)
                if trimmed(request, packages):
                    answer["message"] = "Booked to what is available: less budget, first day sold."
            else:
                answer = self._open_task(request, buy, account, rule, product, push)
            self._books.add_buy(
                buy,
                account_id=account["account_id"],
                scope=scope,
                key=request["idempotency_key"],
                fingerprint=fingerprint,
                answer=answer,
            )
        return answer

    def _open_task(
        self,
        request: dict[str, Any],
        buy: dict[str, Any],
        account: dict[str, Any],
        rule: Rule,
        product: Product,
        push: dict[str, Any] | None,
    ) -> dict[str, Any]:
        moment = clock.stamp(clock.now())
        task: dict[str, Any] = {
            "task_id": f"{self._house.slug}-task-{uuid.uuid4().hex[:12]}",
            "task_type": "create_media_buy",
            "account_id": account["account_id"],
            "media_buy_id": buy["media_buy_id"],
            "status": _OPEN_STATUS[rule],
            "message": _opening(self._house, rule, product),
            "progress": {"percentage": 25, "current_step": "clearance requested"}
            if rule == "clearance"
            else None,
            "context": request.get("context"),
            "created_at": moment,
            "updated_at": moment,
            "push": push,
        }
        self._books.add_task(task)
        for paces, action in _STEPS[rule]:
            self._books.add_step(task["task_id"], due_at=time.time() + paces * self._pace, action=action)
        answer = {"status": task["status"], "task_id": task["task_id"], "message": task["message"]}
        if rule == "clearance":
            answer |= task["progress"]
        if rule == "question":
            answer["reason"] = "APPROVAL_REQUIRED"
        return answer

    def take_step(self) -> bool:
        """Do the step that has been due longest; False when none is due. One that raises is put off."""
        step = self._books.due_step(time.time())
        if step is None:
            return False
        try:
            with self._books.transaction():
                self._books.drop_step(step["number"])
                task = self._books.task(step["task_id"])
                if task is not None and task["status"] not in TERMINAL:
                    self._advance(task, step["action"])
        except Exception:  # whatever it was, the step is due again; who called is told
            self._books.put_off_step(step["number"], due_at=time.time() + _PUT_OFF_SECONDS)
            raise
        return True

    def _advance(self, task: dict[str, Any], action: str) -> None:
        task["updated_at"] = clock.stamp(clock.now())
        if action == "progress":
            task["progress"] = {"percentage": 60, "current_step": "stations confirming"}
        else:
            buy = self._books.buy(task["media_buy_id"]) or {}
            _confirm(buy)
            self._books.save_buy(buy)
            finish_task(task, "completed", "Confirmed.", buy_answer(buy))
        self._books.save_task(task)
        self._post.announce(task)


def finish_task(task: dict[str, Any], status: str, message: str, result: dict[str, Any] | None) -> None:
    """Bring a task to its end; `result` is the task's own answer as create_media_buy would give it."""
    moment = clock.stamp(clock.now())
    task |= {
        "status": status,
        "message": message,
        "updated_at": moment,
        "completed_at": moment,
        "progress": None,
    }
    if result is not None:
        task["result"] = result


def _replay(earlier: tuple[str, dict[str, Any]], fingerprint: str) -> dict[str, Any]:
    """What was answered before the process died between booking and keeping its answer for replay."""
    if earlier[0] != fingerprint:
        raise IdempotencyConflictError(
            operation="create_media_buy",
            errors=[
                {"code": "IDEMPOTENCY_CONFLICT", "message": "idempotency_key reused with a different payload"}
            ],
        )
    return {**earlier[1], "replayed": True}


def _rejection(product: Product) -> dict[str, Any]:
    error = {
        "code": "POLICY_VIOLATION",
        "message": product.refusal,
        "recovery": "terminal",
        "field": "packages",
    }
    return {"status": "rejected", "message": product.refusal, "errors": [error]}


def _opening(house: House, rule: Rule, product: Product) -> str:
    if rule == "question":
        return product.question
    if rule == "clearance":
        return "Clearing the spots with the stations."
    return f"With the sales desk of {house.name}; an answer comes shortly."


def _new_buy(
    request: dict[str, Any],
    media_buy_id: str,
    account: dict[str, Any],
    packages: list[dict[str, Any]],
    *,
    currency: str,
) -> dict[str, Any]:
    moment = clock.stamp(clock.now())
    buy = {
        "media_buy_id": media_buy_id,
        "account": account,
        "currency": currency,
        "packages": packages,
        "revision": 1,
        "confirmed_at": None,
        "created_at": moment,
        "updated_at": moment,
        "paused": bool(request.get("paused", False)),
        "canceled_at": None,
    }
    return buy | {name: request[name] for name in ("name", "context") if name in request}


def _confirm(buy: dict[str, Any]) -> None:
    moment = clock.stamp(clock.now())
    buy |= {"confirmed_at": moment, "updated_at": moment}


def buy_status(buy: dict[str, Any]) -> str:
    """The media buy's own status at this moment (AdCP `enums/media-buy-status.json`)."""
    moment = clock.now()
    if buy["canceled_at"]:
        return "canceled"
    if buy["confirmed_at"] is None or not buy["trafficked"]:
        return "pending_creatives"
    if moment >= _bounds(buy)[1]:
        return "completed"
    if buy["paused"]:
        return "paused"
    return "active" if moment >= _bounds(buy)[0] else "pending_start"


def buy_actions(buy: dict[str, Any]) -> list[str]:
    """What update_media_buy does with the buy at this moment."""
    if buy["confirmed_at"] is None:
        return [] if buy["canceled_at"] else ["cancel"]
    return list(_ACTIONS.get(buy_status(buy), ()))


def _bounds(buy: dict[str, Any]) -> tuple[Any, Any]:
    packages = buy["packages"]
    return (
        min(clock.parse(p["start_time"]) for p in packages),
        max(clock.parse(p["end_time"]) for p in packages),
    )


def buy_total(buy: dict[str, Any]) -> float:
    """Budget of all packages that are not cancelled."""
    return round(sum(p["budget"] for p in buy["packages"] if not p.get("canceled")), 2)


def buy_deadline(buy: dict[str, Any]) -> dict[str, str]:
    """`creative_deadline`, the earliest of the packages', where creatives are still to come."""
    deadlines = [p["creative_deadline"] for p in buy["packages"] if "creative_deadline" in p]
    return {"creative_deadline": min(deadlines, key=clock.parse)} if deadlines else {}


def buy_answer(buy: dict[str, Any]) -> dict[str, Any]:
    """A confirmed buy as create_media_buy answers it."""
    status = buy_status(buy)
    answer = {
        "status": "completed",
        "media_buy_id": buy["media_buy_id"],
        "media_buy_status": status,
        "account": buy["account"],
        "confirmed_at": buy["confirmed_at"],
        "revision": buy["revision"],
        "currency": buy["currency"],
        "total_budget": buy_total(buy),
        "packages": buy["packages"],
        "valid_actions": buy_actions(buy),
        **buy_deadline(buy),
    }
    return answer | {name: buy[name] for name in ("name", "context") if name in buy}


def buy_record(buy: dict[str, Any]) -> dict[str, Any]:
    """A buy as get_media_buys lists it."""
    start, end = _bounds(buy)
    status = buy_status(buy)
    record = {
        "media_buy_id": buy["media_buy_id"],
        "account": buy["account"],
        "status": status,
        "status_as_of": clock.stamp(clock.now()),
        "currency": buy["currency"],
        "total_budget": buy_total(buy),
        "start_time": clock.stamp(start),
        "end_time": clock.stamp(end),
        "confirmed_at": buy["confirmed_at"],
        "revision": buy["revision"],
        "created_at": buy["created_at"],
        "updated_at": buy["updated_at"],
        "packages": buy["packages"],
        "valid_actions": buy_actions(buy),
        **buy_deadline(buy),
    }
    record |= {name: buy[name] for name in ("name", "context") if name in buy}
    if buy["canceled_at"]:
        record["cancellation"] = {"canceled_at": buy["canceled_at"], "canceled_by": "buyer"}
    return record
