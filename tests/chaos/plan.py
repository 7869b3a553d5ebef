"""The plan of a run: one scenario per purchase, in fixed shares; the seed picks order and details."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

#: Each seller's protocol, and how it signs its webhooks ("none": it is polled).
SELLERS = {
    "harbour": ("mcp", "hmac"),
    "signal": ("mcp", "rfc9421"),
    "quiet": ("mcp", "none"),
    "relay": ("a2a", "hmac"),
}
_WITH_WEBHOOKS = [name for name, (_, signature) in SELLERS.items() if signature != "none"]
_CREATE, _POLL, _READ = "create_media_buy", "get_task_status", "get_media_buys"
_UNKNOWN_STATUSES = ("pending_manual", "requires_approval", "approved")
_CONTRADICTIONS = ("then_rejected", "first_rejected", "then_another_buy")
_LATE_S = (1.2, 6)  # the second is longer than the product waits for an answer
Details = dict[str, Any]
_ANSWER_LOST: list[Details] = [{"kind": kind} for kind in ("drop", "truncated", "html", "http")]
_CALL_LOST: list[Details] = [
    {"kind": "refuse"},
    {"kind": "http", "status": 503, "before": True},
    {"kind": "error", "code": "SERVICE_UNAVAILABLE", "recovery": "transient"},
]
_POLL_BROKEN: list[Details] = [
    *_ANSWER_LOST,
    {"kind": "stale"},
    {"kind": "stale", "status": "pending_manual"},
    {"kind": "error", "code": "REFERENCE_NOT_FOUND", "recovery": "correctable"},
]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One purchase: the script and the faults of its product at its seller.

    `ends`: whether the seller ever answers for good. `asks_people`: whether people may have to decide.
    """

    number: int
    kind: str
    seller: str
    script: Details
    faults: Sequence[Details] = ()
    ends: bool = True
    asks_people: bool = False

    @property
    def product_id(self) -> str:
        return f"chaos-{self.number:05d}"

    @property
    def is_sold(self) -> bool:
        """Whether the seller sells as soon as it gets the call, and nobody is asked."""
        refuses = "rejected", "failed"
        return self.ends and not self.asks_people and self.script.get("end") not in refuses


def plan(*, seed: int, operations: int) -> list[Scenario]:
    """Return the scenarios of purchases 1 to `operations`."""
    rng = Random(f"{seed}:{operations}")
    shares = [kind for kind, (share, _) in KINDS.items() for _ in range(share)]
    kinds = [shares[int((number + rng.random()) * len(shares) / operations)] for number in range(operations)]
    rng.shuffle(kinds)
    return [_scenario(rng, number, kind) for number, kind in enumerate(kinds, start=1)]


def _scenario(rng: Random, number: int, kind: str) -> Scenario:
    details = {"seller": rng.choice([*SELLERS]), "script": {}, **KINDS[kind][1](rng)}
    details["script"] = {"webhooks": "once", **details["script"]}
    return Scenario(number=number, kind=kind, **details)


def _task(rng: Random, **script: Any) -> Details:
    """Return a script whose purchase takes up to 4 seconds."""
    return {"first": "submitted", "pace_s": round(rng.uniform(0.2, 4), 2), **script}


def _task_or_not(rng: Random) -> Details:
    return _task(rng) if rng.random() < 0.5 else {}


def _faults(rng: Random, tool: str, kinds: Sequence[Details], *, most: int) -> list[Details]:
    return [{"tool": tool, **rng.choice(kinds)} for _ in range(rng.randint(1, most))]


def _refuses(rng: Random) -> Details:
    end = rng.choice(("rejected", "failed"))
    return {"script": _task(rng, end=end) if rng.random() < 0.5 else {"first": end, "end": end}}


def _answer_lost(rng: Random) -> Details:
    return {"script": _task_or_not(rng), "faults": _faults(rng, _CREATE, _ANSWER_LOST, most=2)}


def _call_lost(rng: Random) -> Details:
    return {"script": _task_or_not(rng), "faults": _faults(rng, _CREATE, _CALL_LOST, most=2)}


def _in_flight(rng: Random) -> Details:
    waiting = {"tool": _CREATE, "kind": "in_flight", "times": rng.randint(2, 5)}
    return {"faults": [{"tool": _CREATE, "kind": "drop"}, waiting]}


def _answer_late(rng: Random) -> Details:
    hang = {"tool": _CREATE, "kind": "hang", "seconds": rng.choice(_LATE_S)}
    return {"script": _task_or_not(rng), "faults": [hang]}


def _webhooks(rng: Random, **script: Any) -> Details:
    return {"script": _task(rng, **script), "seller": rng.choice(_WITH_WEBHOOKS)}


def _webhook_corrupted(rng: Random) -> Details:
    faults = rng.choices(("bad_signature", "cut", "not_json"), k=rng.randint(1, 2))
    return _webhooks(rng, webhook_faults=faults)


def _webhook_early(rng: Random) -> Details:
    hang = {"tool": _CREATE, "kind": "hang", "seconds": _LATE_S[0]}
    return {**_webhooks(rng, pace_s=0.1), "faults": [hang]}


def _polls_broken(rng: Random) -> Details:
    return {"script": _task(rng), "seller": "quiet", "faults": _faults(rng, _POLL, _POLL_BROKEN, most=3)}


def _contradicts(rng: Random) -> Details:
    return {**_webhooks(rng, webhooks=rng.choice(_CONTRADICTIONS)), "asks_people": True}


def _new_task_ids(rng: Random) -> Details:
    fault = {"tool": _POLL, "kind": "new_task_id", "times": 8}
    return {"script": _task(rng, pace_s=4), "seller": "quiet", "faults": [fault], "asks_people": True}


def _never_ends(rng: Random, first: str = "", **fault: Any) -> Details:
    first = first or rng.choice(("submitted", "working", *_UNKNOWN_STATUSES))
    faults = [{"tool": _CREATE, "times": 0, **fault}] if fault else []
    return {"script": {"first": first, "pace_s": None}, "faults": faults, "ends": False, "asks_people": True}


#: Kind of scenario: its share of a thousand, and its details.
KINDS: dict[str, tuple[int, Callable[[Random], Details]]] = {
    "bought at once": (95, lambda rng: {}),
    "takes its time": (100, lambda rng: {"script": _task(rng)}),
    "computes": (60, lambda rng: {"script": _task(rng, first="working")}),
    "refuses": (80, _refuses),
    "unknown status": (50, lambda rng: {"script": _task(rng, first=rng.choice(_UNKNOWN_STATUSES))}),
    "answer lost": (150, _answer_lost),
    "call lost": (70, _call_lost),
    "still in flight": (20, _in_flight),
    "answer late": (50, _answer_late),
    "webhook doubled": (60, lambda rng: _webhooks(rng, webhooks="twice")),
    "webhook lost": (40, lambda rng: _webhooks(rng, webhooks="none")),
    "webhook corrupted": (50, _webhook_corrupted),
    "webhooks reordered": (35, lambda rng: _webhooks(rng, webhooks="reordered")),
    "webhook before the answer": (30, _webhook_early),
    "polls broken": (40, _polls_broken),
    "reads broken": (15, lambda rng: {"faults": _faults(rng, _READ, _ANSWER_LOST, most=1)}),
    "contradicts itself": (20, _contradicts),
    "new task id at each poll": (5, _new_task_ids),
    "bought, never answers": (10, lambda rng: _never_ends(rng, "completed", kind="drop")),
    "never takes the call": (5, lambda rng: _never_ends(rng, "completed", kind="refuse")),
    "in flight for ever": (5, lambda rng: _never_ends(rng, "completed", kind="in_flight")),
    "never ends": (5, _never_ends),
    "asks and waits": (5, lambda rng: _never_ends(rng, "input-required")),
}
