"""The one reader of answers: from what a transport carried, in any channel, to one `Seen`. It never raises.

It is taken apart (`told`), its facts go through the table (`meaning`), and one `Seen` is made of both. Why it
ended badly is read here: from wherever the seller said it, under a code or in words.

Sources: AdCP L3/async-identity-and-convergence, operating/transport-errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from . import errors
from .account_keys import account_stated
from .extraction import Json
from .hygiene import identified, integral
from .meaning import PURCHASE, About, Facts, meaning, plain_word
from .plain_words import IN_WORDS, refusal_in_words, refusal_status
from .told import ENVELOPE_FIELDS, Carried, Told, facts_of, told_of
from .types import ENDED_BADLY, Progress, Seen, WireError
from .values import first_text, identity_of, number_of, parse_time, text_of, whole_of

_MESSAGE_FIELDS = ("message", "reason", "error_message")
# Ends that come with a result; a canceled task may have none.
_WITH_RESULT = frozenset({"completed", "failed", "rejected"})
# Which fields say when; and where an `error` beside the result is a summary of the one in it.
_OF_A_REPLY, _OF_A_RECORD = ("timestamp", "updated_at"), ("updated_at", "completed_at", "timestamp")
_TIMES = {
    "call": _OF_A_REPLY,
    "buy": _OF_A_REPLY,
    "webhook": ("timestamp",),
    **dict.fromkeys(("poll", "item", "task"), _OF_A_RECORD),
}
_PAUSED = frozenset({"input-required", "auth-required"})
_SUMMARISED = frozenset({"poll", "item", "task"})
_MARKED = WireError(code=errors.UNCODED, message="the seller marks it as an error (isError)")
_REJECTED = WireError(code="REJECTED", message="the seller shows it as rejected")


def read_answer(carried: Carried, *, about: About = "call", task_type: str = "") -> Seen:
    """The `Seen` of whatever was carried. `task_type`: of the task that it tells of, as we asked for it;
    empty where nobody here knows: then what the answer says of it is believed."""
    told = told_of(carried, about, task_type)
    meant = meaning(facts_of(told))
    if told.failed and meant.status == "unknown":
        return _of_no_task(told)
    buy = told.buy or (told.word if meant.of_the_buy else None)
    seen = Seen(
        kind="answer",
        status=meant.status,
        raw_status=told.raw_word,
        task_id=identity_of(told.outer.get("task_id")),
        task_type=told.task_type,
        payload=_payload(told.result, buy) if told.has_result else None,
        media_buy_status=buy,
        errors=next(filter(None, (errors.read_errors(told_ones) for told_ones in told.lists_of_errors)), ()),
        context=_context(told.result.get("context")) or _context(told.outer.get("context")),
        context_id=identity_of(told.outer.get("context_id")) or identity_of(told.result.get("context_id")),
        account=_account(told.result) or _account(told.outer),
        replayed=told.outer.get("replayed") is True and about == "call",
        adcp_version=text_of(told.outer.get("adcp_version")),
        progress=read_progress(told.outer) or read_progress(told.result),
        at=next((at for at in (parse_time(told.outer.get(name)) for name in _TIMES[told.about]) if at), None),
        raw=carried.raw,
    )
    return _explained(seen, told)


def read_bought(buy: Json) -> Seen:
    """A media buy that was found by our context, as the answer to its purchase: it proves the end; the own
    answer may still come."""
    buy = identified(buy)
    state = text_of(buy.get("media_buy_status")) or text_of(buy.get("status"))
    status = meaning(Facts(about="buy", word=plain_word(state), names_buy=True, task=PURCHASE)).status
    return Seen(
        kind="answer",
        status=status,
        raw_status=state or "",
        media_buy_status=state,
        message="Found at the seller by our context",
        payload=buy,
        partial=True,
        error=_REJECTED if status == "rejected" else None,
        context=_context(buy.get("context")),
        account=_account(buy),
        raw=buy,
    )


def read_progress(data: Mapping[str, Any]) -> Progress | None:
    """What a working answer says of how far it is, at the top or under `progress`."""
    nested = data.get("progress")
    source = nested if isinstance(nested, Mapping) else data
    percentage, step = number_of(source.get("percentage")), text_of(source.get("current_step"))
    number, total = whole_of(source.get("step_number")), whole_of(source.get("total_steps"))
    if percentage is None and step is None and number is None and total is None:
        return None
    return Progress(percentage=percentage, current_step=step, step_number=number, total_steps=total)


def is_partial(status: str, result: Json | None, error: WireError | None) -> bool:
    """Whether an end came without the result that belongs to it, or an error in its place."""
    explained = error is not None and error.code != errors.UNCODED
    return status in _WITH_RESULT and not result and not explained


def _of_no_task(told: Told) -> Seen:
    """A poll that failed: its error, and nothing of the task."""
    text = told.carried.text
    error = _coded(told, told.outer) or refusal_in_words(text)
    broke = told.carried.is_error or told.layers[0].broken or told.carried.state in ENDED_BADLY
    if error is None and (told.refusal or broke):
        error = _uncoded(told)
    return Seen(
        kind="answer",
        raw_status=told.raw_word,
        error=error,
        errors=errors.read_errors(told.outer.get("errors")),
        message=first_text(told.outer, _MESSAGE_FIELDS) or (error.message if error else None) or text,
        context=_context(told.outer.get("context")),
        context_id=identity_of(told.outer.get("context_id")),
        adcp_version=text_of(told.outer.get("adcp_version")),
        retry_after=_retry_after(told, error),
        raw=told.carried.raw,
    )


def _retry_after(told: Told, error: WireError | None) -> float | None:
    """How long to wait, in seconds: by the error, else by what stands beside it."""
    if error is not None and error.retry_after is not None:
        return error.retry_after
    return errors.clamp_retry_after(told.outer.get("retry_after"))


def _explained(seen: Seen, told: Told) -> Seen:
    """With why it ended badly, what is said of it, how long to wait, and whether the result is still to
    come."""
    error = _why_ended(seen.status, told) if seen.status in ENDED_BADLY else None
    if error is not None and error.code == errors.GARBLED:
        seen = replace(seen, status="unknown", payload=None, media_buy_status=None)
        return replace(seen, error=error, message=error.message)
    status = refusal_status(error) if error and error.details is IN_WORDS else seen.status
    said = first_text(told.outer, _MESSAGE_FIELDS) or first_text(told.result, _MESSAGE_FIELDS)
    if status in _PAUSED:
        said = _pause_message(told, seen.errors)
    return replace(
        seen,
        status=status,
        error=error,
        message=said or (error.message if error else None) or told.carried.text,
        retry_after=_retry_after(told, error),
        partial=told.of_a_task and not told.is_whole and is_partial(status, None, _explaining(told, error)),
    )


def _pause_message(told: Told, listed: tuple[WireError, ...]) -> str:
    """Return what the seller asks: each of its messages, reasons and error messages once.

    Source: AdCP create_media_buy, async response "input-required" (`reason`, `errors`), and the envelope.
    """
    words = [told.carried.text]
    words += [text_of(layer.get(name)) for layer in (told.outer, told.result) for name in _MESSAGE_FIELDS]
    words += [error.message for error in listed]
    return "; ".join(dict.fromkeys(word for word in words if word))


def _explaining(told: Told, error: WireError | None) -> WireError | None:
    """The error where it stands for the result: a poll's `error` is a summary."""
    return error if told.about in ("task", "webhook") else None


def _why_ended(status: str, told: Told) -> WireError | None:
    """Why it ended badly: the AdCP error there is, else in whatever shape it was said."""
    own = _coded(told, told.result)
    summary = errors.read_error(told.outer.get("error")) if told.about in _SUMMARISED else None
    if own and summary and own.code != summary.code:
        # AdCP L3/async-identity-and-convergence: `error` must agree with the error in `result`.
        why = f"the task's error {summary.code} contradicts its result's {own.code}"
        return WireError(code=errors.GARBLED, message=why)
    if own is not None:
        return own
    if told.failed and status != "canceled":
        return refusal_in_words(told.carried.text) or _uncoded(told)
    said = errors.told_error(told.reasons)
    if said is not None and said.code == errors.UNCODED and told.about == "call":
        return said if told.word in ENDED_BADLY else refusal_in_words(said.message) or _crashed(said.message)
    if said is None and told.broken:
        return _MARKED
    return said or (_REJECTED if status == "rejected" and told.buy == "rejected" else None)


def _coded(told: Told, data: Json) -> WireError | None:
    """The AdCP error of an answer, or of a result in it: its own, what was carried, the first of its list.
    What says itself that the task ended badly has no result that an `adcp_error` could be part of."""
    ended = told.word in ENDED_BADLY
    readable = told.carried.extracts or data is not told.outer or ended
    own = errors.read_error(data.get("adcp_error")) if readable else None
    listed = next(iter(errors.read_errors(data.get("errors"))), None)
    return own or told.carried.error or listed or (errors.read_error(told.refusal) if ended else None)


def _uncoded(told: Told) -> WireError:
    """The error of a call that failed under no code: nobody knows what became of it."""
    said = errors.told_error(told.refusal) or errors.told_error(told.reasons)
    return _crashed(told.carried.text or (said.message if said else ""))


def _crashed(words: str) -> WireError:
    return WireError(code=errors.TOOL_ERROR, message=words)


def _payload(result: Json, buy: str | None) -> Json:
    """The task's own result: without the envelope, whole numbers as integers, identities as text, the media
    buy's status in its own place (where the envelope's stood it would be lost)."""
    told = {} if buy is None or "media_buy_status" in result else {"media_buy_status": buy}
    body = {key: value for key, value in {**result, **told}.items() if key not in ENVELOPE_FIELDS}
    payload: Json = identified(integral(body))
    return payload


def _account(record: Json) -> Json | None:
    """The account that a record names; None where it names none in a form that is known."""
    stated = record.get("account")
    return identified(stated) if isinstance(stated, dict) and account_stated({"account": stated}) else None


def _context(value: object) -> Json | None:
    context: Json | None = integral(value) if isinstance(value, dict) else None
    return context
