"""The forms by which people steer one operation: what the page shows of them, and what was written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tasks_app.adcp.strict_json import MalformedBody, parse_object
from tasks_app.operations import steering
from tasks_app.operations.account_refusals import anew_because, refused_for_account
from tasks_app.operations.answer_stages import answer_said, answers_of
from tasks_app.operations.answers import operation_answer
from tasks_app.operations.corrections import (
    corrected_as,
    correction_arguments,
    correction_refusal,
    operation_correct,
    sellers_words,
)
from tasks_app.operations.letters import about_question, about_silence
from tasks_app.operations.lookup import asked_with
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.operations.overdue import more_time_words
from tasks_app.operations.pauses import can_continue, continuation_current
from tasks_app.operations.presenters import pretty
from tasks_app.operations.steered import SteeringRefusedError
from tasks_app.operations.writing import seller_write
from tasks_app.people.models import User
from tasks_app.people.roles import STEER_OPERATION
from tasks_app.sellers.explain import credentials_words

_MAX_JSON = 64 * 1024
Form = Mapping[str, str]


def steering_data(operation: Operation, viewer: User) -> dict[str, Any]:
    """What desk/operation_steer.html is given."""
    pause = continuation_current(operation) if can_continue(operation) else None
    answers = answers_of([operation])
    can_answer = pause is not None and answers.may_be_given(operation)
    waits = operation.status in (S.INPUT_REQUIRED, S.AUTH_REQUIRED)
    cannot_answer = waits and not can_answer and answers.of(operation) is None
    asks = operation.status == S.INPUT_REQUIRED and cannot_answer
    return {
        "may_steer": viewer.has_perm(STEER_OPERATION),
        "may_poll": viewer.has_perm(STEER_OPERATION) and not steering.poll_refusal(operation),
        "poll_refusal": steering.poll_refusal(operation),
        "resend_refusal": steering.resend_refusal(operation),
        "stop_refusal": steering.stop_refusal(operation),
        "settle_refusal": steering.settle_refusal(operation),
        **_correction_data(operation, viewer),
        "ends": steering.ends_of(operation),
        "pause": pause,
        "answerable": can_answer,
        "answer_said": answer_said(operation, pause),
        "unanswerable": cannot_answer,
        "looked_at_with": asked_with(operation),
        "renews": credentials_words(operation.seller) if operation.status == S.AUTH_REQUIRED else "",
        "letter": about_question(operation) if asks else about_silence(operation),
        "more_time": more_time_words(operation),
        "key_short": f"{operation.idempotency_key[:8]}…" if operation.idempotency_key else "",
    }


def _correction_data(operation: Operation, viewer: User) -> dict[str, Any]:
    """The form by which it is corrected, and what it was corrected as."""
    offered = viewer.has_perm(STEER_OPERATION) and not correction_refusal(operation)
    return {
        "said": sellers_words(operation) if operation.status in (S.FAILED, S.REJECTED) else "",
        "correctable": offered,
        "arguments": pretty(correction_arguments(operation)) if offered else "",
        "anew_because": anew_because(operation) if offered and refused_for_account(operation) else "",
        "corrected_as": corrected_as(operation),
    }


def steer(form: Form, operation: Operation, user: User) -> str:
    """Do what a form asks; answers what was done, in a sentence. Raises SteeringRefusedError."""
    act = _ACTS.get(form.get("act", "poll"))
    if act is None:
        raise SteeringRefusedError("state", "There is no such act.")
    return act(form, operation, user)


def _poll(form: Form, operation: Operation, user: User) -> str:
    steering.operation_poll(operation_id=operation.pk, user=user)
    return f"{operation.reference} is due now: the next sweep asks {operation.seller}."


def _resend(form: Form, operation: Operation, user: User) -> str:
    _sure(form)
    steering.operation_resend(operation_id=operation.pk, user=user, reason=form.get("reason", ""))
    return f"The same is sent to {operation.seller} again, under the same key."


def _stop(form: Form, operation: Operation, user: User) -> str:
    _sure(form)
    steering.operation_stop(operation_id=operation.pk, user=user, reason=form.get("reason", ""))
    if operation.is_mutation:
        return f"{operation.reference} is overdue now; somebody else decides whether it is given up."
    return f"{operation.reference} is given up."


def _settle(form: Form, operation: Operation, user: User) -> str:
    _sure(form)
    result = _json(form.get("result", ""), "The result")
    named = form.get("media_buy_id", "").strip()
    asked = steering.operation_settle(
        operation_id=operation.pk,
        user=user,
        end=form.get("end", ""),
        reason=form.get("reason", ""),
        evidence=form.get("evidence", ""),
        result={**result, "media_buy_id": named} if named else result,
    )
    return f"{asked.reference}: somebody else approves it." if asked else f"{operation.reference} is settled."


def _answer(form: Form, operation: Operation, user: User) -> str:
    _sure(form)
    generation = form.get("generation", "")
    operation_answer(
        operation_id=operation.pk,
        generation=int(generation) if generation.isdecimal() and len(generation) < 6 else 0,
        user=user,
        text=form.get("text", ""),
        changes=_json(form.get("changes", ""), "The changed arguments"),
    )
    if operation.is_mutation:
        return "Your answer is kept; it leaves when somebody else has released it."
    return f"Your answer is on its way to {operation.seller}."


def _write(form: Form, operation: Operation, user: User) -> str:
    _sure(form)
    command = seller_write(
        operation_id=operation.pk, user=user, subject=form.get("subject", ""), body=form.get("body", "")
    )
    if command.executed_at is None:
        return f"Your message to {operation.seller} waits at a risk gate; people are asked."
    return f"Your message to {operation.seller} is on its way."


def _correct(form: Form, operation: Operation, user: User) -> str:
    _sure(form)
    new = operation_correct(
        operation_id=operation.pk,
        user=user,
        arguments=_json(form.get("arguments", ""), "What is asked for"),
        reason=form.get("reason", ""),
    )
    return f"{new.reference} is asked for in its place: somebody else decides whether it is sent."


def _sure(form: Form) -> None:
    if form.get("sure") != "on":
        raise SteeringRefusedError("reason", "Confirm that you have read what it does.")


def _json(written: str, what: str) -> dict[str, Any]:
    """A JSON object out of a text field; empty: none. Raises SteeringRefusedError."""
    if not written.strip():
        return {}
    try:
        return dict(parse_object(written.encode("utf-8", "surrogatepass"), max_bytes=_MAX_JSON))
    except MalformedBody as error:
        raise SteeringRefusedError("answer", f"{what}: {error.reason}. Write a JSON object.") from error


_ACTS: dict[str, Callable[[Form, Operation, User], str]] = {
    "poll": _poll,
    "resend": _resend,
    "stop": _stop,
    "settle": _settle,
    "answer": _answer,
    "write": _write,
    "correct": _correct,
}
