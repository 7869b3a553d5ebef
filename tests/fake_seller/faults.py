"""The faults that a test can ask the fake seller for, and how they change an answer.

Each applies to the next `times` calls of one tool ("*": any tool; 0 times: until `clear()`), or only to calls
about one product.

| kind           | parameters                     | what the buyer gets                                  |
|----------------|--------------------------------|------------------------------------------------------|
| `http`         | `status` (500)                 | that HTTP status with a text body                    |
| `html`         |                                | 200, an HTML page                                    |
| `truncated`    |                                | 200, the first half of the right answer              |
| `status`       | `status` ("requires_approval") | that task status; a purchase becomes a task          |
| `stale`        | `status` ("working")           | that status without a result, an hour old            |
| `huge`         | `bytes` (11 MiB)               | the right answer with padding of that size           |
| `hang`         | `seconds` (120)                | the right answer that much later, or at `release()`  |
| `new_task_id`  |                                | the right answer with another task id                |
| `drop`         |                                | the call is carried out, then the connection closes  |
| `refuse`       |                                | the connection closes                                |
| `unauthorized` |                                | 401                                                  |
| `in_flight`    | `retry_after` (1)              | IDEMPOTENCY_IN_FLIGHT with retry_after               |
| `error`        | `code`, `message`, `recovery`  | that AdCP error                                      |
| `crash`        |                                | an error with text only                              |
| `merge`        | `answer` (object)              | the right answer updated with that object            |

The seller carries the call out first, except with `refuse`, `unauthorized`, `in_flight`, `error`, `crash`,
and with `before=True`.
"""

from __future__ import annotations

import time
import uuid

from tests.fake_seller.books import Json, timestamp

_WITH_EFFECT = frozenset(
    {"http", "html", "truncated", "status", "stale", "huge", "hang", "new_task_id", "drop", "merge"}
)
_WITHOUT_EFFECT = frozenset({"refuse", "unauthorized", "in_flight", "error", "crash"})
KINDS = _WITH_EFFECT | _WITHOUT_EFFECT


def is_carried_out(fault: Json) -> bool:
    """Return whether the seller carries the call out despite the fault."""
    return fault.get("kind") not in _WITHOUT_EFFECT and not fault.get("before")


def error_of(fault: Json) -> Json | None:
    """Return the AdCP error that a fault answers with, if it does."""
    if fault.get("kind") == "error":
        error = {"code": fault["code"], "message": fault.get("message", "refused by the test")}
        return {**error, "recovery": fault.get("recovery", "terminal")}
    if fault.get("kind") == "in_flight":
        return {
            "code": "IDEMPOTENCY_IN_FLIGHT",
            "message": "the first request with this key still runs",
            "recovery": "transient",
            "retry_after": fault.get("retry_after", 1),
        }
    return None


def distort(answer: Json, fault: Json) -> Json:
    """Return the answer as the fault changes it."""
    match fault.get("kind"):
        case "status":
            return answer | {"status": fault.get("status", "requires_approval")}
        case "stale":
            bare = {name: answer[name] for name in answer if name not in ("result", "completed_at")}
            updated_at = timestamp(time.time() - 3600)
            return bare | {"status": fault.get("status", "working"), "updated_at": updated_at}
        case "new_task_id":
            return answer | {"task_id": f"fake-task-{uuid.uuid4().hex[:10]}"}
        case "huge":
            return answer | {"ext": {"padding": "x" * fault.get("bytes", 11 * 1024 * 1024)}}
        case "merge":
            return answer | fault["answer"]
        case _:
            return answer
