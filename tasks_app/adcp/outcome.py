"""What to believe when no AdCP answer came: from the ledger of a call to a `Seen`.

The network decides the kind, never a library's exception: nothing left (`not_sent`), something left and
nothing came (`no_answer`), something came that is no answer (`garbled`). A status code says what it says, and
no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from . import errors
from .envelopes import seen_rpc_error
from .http import BEFORE_SENDING, KEPT_BYTES, Exchange, Ledger
from .hygiene import clean
from .plain_words import refusal_in_words, refusal_status
from .strict_json import MalformedBody, parse_object
from .types import Recovery, Seen, WireError

_EXCERPT_CHARS = 2000
_BAD_REQUEST = (400, 422)  # refused as it was asked, before anything was done


def seen_failure(ledger: Ledger, *, timed_out: bool, reason: str, secrets: Sequence[str]) -> Seen:
    """The Seen of a call that ended without an answer. `reason` speaks only where the ledger is silent."""
    last = ledger.last
    if last is None or (not last.left and last.failure in BEFORE_SENDING):
        return _not_sent(last, reason)
    if last.failure == "too_large":
        return _garbled(last, errors.TOO_LARGE, last.reason, ledger, secrets)
    if last.http_status is None:
        return _silent(last, ledger, timed_out=timed_out, reason=reason)
    if last.http_status >= 300:
        return _refused(last, ledger, secrets)
    if timed_out and not last.finished:
        return _silent(last, ledger, timed_out=True, reason=reason)
    if last.failure is not None:
        return _garbled(last, errors.GARBLED, last.reason, ledger, secrets)
    server_error = _rpc_error(last)
    if server_error is not None:
        return _with_reach(seen_rpc_error(server_error, secrets=secrets), ledger)
    is_page = last.content_type.startswith("text/html")
    why = "a web page came back" if is_page else reason or "the answer cannot be read"
    return _garbled(last, errors.GARBLED, why, ledger, secrets)


def _not_sent(exchange: Exchange | None, reason: str) -> Seen:
    code = errors.ADDRESS_REFUSED if exchange and exchange.failure == "address" else errors.NOT_SENT
    why = exchange.reason if exchange and exchange.reason else reason
    recovery: Recovery = "terminal" if code == errors.ADDRESS_REFUSED else "transient"
    details = {"remedy": exchange.remedy} if exchange and exchange.remedy else {}
    error = WireError(code=code, message=why, recovery=recovery, details=details)
    return Seen(kind="not_sent", error=error, message=why, request_left=False)


def _silent(exchange: Exchange, ledger: Ledger, *, timed_out: bool, reason: str) -> Seen:
    """Nothing came. Where not even a connection stood, nothing left either."""
    if not ledger.anything_left:
        return _not_sent(exchange, "no connection in time")
    why = "no answer in time" if timed_out else exchange.reason or reason
    error = WireError(code=errors.NO_ANSWER, message=why, recovery="transient")
    return Seen(kind="no_answer", error=error, message=why, request_left=ledger.request_left)


def _refused(exchange: Exchange, ledger: Ledger, secrets: Sequence[str]) -> Seen:
    """An HTTP status that is no success; a JSON-RPC error in its body speaks first."""
    status = exchange.http_status or 0
    server_error = _rpc_error(exchange)
    busy = _busy(exchange)
    if server_error is not None and status not in (401, 403):
        return _with_reach(seen_rpc_error(server_error, secrets=secrets, told=busy), ledger)
    raw = _raw(exchange, secrets)
    if status in (401, 403):
        code, why = _unauthorised(status, ledger)
        error = WireError(code=code, message=f"{why} (HTTP {status})", recovery=errors.recovery_for(code))
        return Seen(
            kind="answer",
            status="auth-required",
            raw_status=f"http {status}",
            error=error,
            message=error.message,
            raw=raw,
            request_left=ledger.request_left,
        )
    refusal = refusal_in_words(_words(raw)) if status in _BAD_REQUEST else None
    if refusal is not None:
        return Seen(
            kind="answer",
            status=refusal_status(refusal),
            raw_status=f"http {status}",
            error=refusal,
            message=refusal.message,
            raw=raw,
            request_left=ledger.request_left,
        )
    if status < 400:
        error = WireError(
            code=errors.REDIRECTED,
            message=f"the seller's address redirects (HTTP {status}); register the address it points to",
            recovery="terminal",
            details={"location": clean(exchange.location, secrets)},
        )
    elif busy is not None:
        error = busy
    else:
        error = WireError(
            code=errors.HTTP_ERROR,
            message=f"the seller answered HTTP {status}",
            recovery="transient" if status >= 500 else "terminal",
            details={"http_status": status},
        )
    return Seen(
        kind="garbled",
        error=error,
        message=error.message,
        retry_after=error.retry_after,
        raw=raw,
        request_left=ledger.request_left,
    )


def _busy(exchange: Exchange) -> WireError | None:
    """What HTTP itself says of a seller that has no time for us, and when it will have."""
    status = exchange.http_status
    if status not in (429, 503):
        return None
    return WireError(
        code="RATE_LIMITED" if status == 429 else "SERVICE_UNAVAILABLE",
        message=f"the seller answered HTTP {status}",
        recovery="transient",
        retry_after=retry_after_s(exchange.retry_after),
        details={"http_status": status},
    )


def _words(raw: dict[str, Any]) -> str:
    """What a body says in plain words: its text, or that of the JSON in it; nothing of a web page."""
    text = str(raw["beginning"]).strip()
    if text.startswith("<"):
        return ""
    try:
        body = parse_object(text.encode())
    except MalformedBody:
        return text
    said = (body.get(name) for name in ("detail", "message", "error_description", "error"))
    return next((one for one in said if isinstance(one, str) and one), "")


def _unauthorised(status: int, ledger: Ledger) -> tuple[str, str]:
    if status == 403:
        return "PERMISSION_DENIED", "the seller denies us this"
    if ledger.credentialed:
        return "AUTH_INVALID", "the seller does not accept our token"
    return "AUTH_MISSING", "the seller wants a token"


def _garbled(exchange: Exchange, code: str, why: str, ledger: Ledger, secrets: Sequence[str]) -> Seen:
    error = WireError(code=code, message=why, details={"http_status": exchange.http_status})
    return Seen(
        kind="garbled",
        error=error,
        message=why,
        raw=_raw(exchange, secrets),
        request_left=ledger.request_left,
    )


def _with_reach(seen: Seen, ledger: Ledger) -> Seen:
    return replace(seen, request_left=ledger.request_left)


def _rpc_error(exchange: Exchange) -> dict[str, Any] | None:
    """The seller's own JSON-RPC error, from the bytes that came: the libraries make up such errors
    themselves."""
    for text in _json_texts(exchange):
        try:
            body = parse_object(text)
        except MalformedBody:
            continue
        error = body.get("error")
        if isinstance(error, dict) and "code" in error:
            return error
    return None


def _json_texts(exchange: Exchange) -> list[bytes]:
    body = bytes(exchange.body)
    if not exchange.content_type.startswith("text/event-stream"):
        return [body]
    lines = body.replace(b"\r\n", b"\n").split(b"\n")
    return [line.removeprefix(b"data:").strip() for line in lines if line.startswith(b"data:")]


def _raw(exchange: Exchange, secrets: Sequence[str]) -> dict[str, Any]:
    """What came, for the record: status, type, size and the beginning of the text."""
    excerpt = bytes(exchange.body[:KEPT_BYTES]).decode("utf-8", "replace")
    cleaned = clean(excerpt, secrets)
    return {
        "http_status": exchange.http_status,
        "content_type": clean(exchange.content_type, secrets),
        "bytes": exchange.received,
        "beginning": cleaned[:_EXCERPT_CHARS],
    }


def retry_after_s(value: str | None) -> float | None:
    """`Retry-After` in seconds, or as a date; None where it is neither."""
    told = (value or "").strip()
    if told.isascii() and told.isdecimal():
        return errors.clamp_retry_after(int(told[:9]))
    try:
        at = parsedate_to_datetime(told)
    except (ValueError, OverflowError, TypeError):
        return None
    if at.tzinfo is None:
        return None
    return errors.clamp_retry_after((at - datetime.now(UTC)).total_seconds())
