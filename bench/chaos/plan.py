"""What each purchase will meet, decided by the seed alone: the sellers and the judge read the same plan.

How many purchases meet which trouble is fixed (`SHARES`); the seed shuffles them and picks the details.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from random import Random

# The sellers: transport and how they sign their webhooks ("none": they are polled only).
SELLERS: dict[str, tuple[str, str]] = {
    "harbour": ("mcp", "hmac"),
    "signal": ("mcp", "rfc9421"),
    "quiet": ("mcp", "none"),
    "relay": ("a2a", "hmac"),
    "throng": ("mcp", "none"),
    "torrent": ("mcp", "none"),
}
# Takes few calls at a time and answers slowly: what waits for it must hold up nobody else's. Its purchases
# come several at once, so that it is full.
CROWDED = "throng"
# Takes more calls than one sweep makes at once, and tells slowly how a task stands, over and over: it would
# fill each batch by itself. Its tasks are looked at from one moment on, when it has all of them.
FLOODED = "torrent"
# How many calls one sweep has out at once (FLIGHTDECK_SWEEP_BATCH), and how many of them are one seller's at
# most: an eighth, rounded down, is left for the others.
BATCH = 16
SHARE = BATCH - BATCH // 8
SLOTS = {**dict.fromkeys(SELLERS, 16), CROWDED: 2, FLOODED: 64}
_CROWD = 8
_FLOOD, _FLOOD_OF = 30, 4  # so many purchases, in a short run a fourth
_ANY = tuple(name for name in SELLERS if name not in (CROWDED, FLOODED))
SIGNED = "signal"  # the one whose keys are hard to get
TELLING = tuple(name for name, (_, signed) in SELLERS.items() if signed != "none")
NEVER = float("inf")
# Beyond the buyer's patience with one call: it has hung up when the answer comes.
LATE_S = 6.0

# Troubles of the call itself. `DONE` comes after the seller has acted.
LOST = ("drop_before", "http_503_before", "busy")
UNDONE = (*LOST, "in_flight")
DONE = ("drop", "truncated", "html", "http_500")
POLL_TROUBLE = ("http_500", "html", "drop", "truncated", "stale", "odd", "missing")
POST_TROUBLE = ("bad_signature", "cut", "not_json")
_EVERY_TIME = 100
FLOOD = "flood at one seller"
# Kinds that no seller ever brings to an end: only their deadline does.
ENDLESS = (
    "bought, never says so",
    "never takes the call",
    "in flight for ever",
    "never ends",
    "asks and waits",
)
ODD = ("pending_manual", "requires_approval", "approved")


@dataclass(frozen=True, kw_only=True)
class Script:
    """One purchase at its seller.

    `first`: how the call is answered, with a final status or an interim one; then it ends as `end` after
    `pace_s` seconds. `call`, `poll`, `read`, `post`: what befalls the first calls, polls, reads of what was
    bought, attempts at a webhook, in turn; `always` befalls every call. `told`: how its end is announced.
    `parked`: it may well come to a person.
    """

    number: int
    kind: str
    seller: str
    first: str = "completed"
    end: str = "completed"
    pace_s: float = 0.0
    call: tuple[str, ...] = ()
    always: str = ""
    poll: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    post: tuple[str, ...] = ()
    told: str = "once"
    parked: bool = False

    @property
    def endless(self) -> bool:
        return self.kind in ENDLESS

    @property
    def would_book(self) -> bool:
        """Whether its seller books it as soon as it hears of it, and nothing is left to people."""
        return self.end == "completed" and not self.parked

    @property
    def product_id(self) -> str:
        return f"chaos-{self.number:05d}"


def _plain(rng: Random, s: Script) -> Script:
    return s


def _slow(rng: Random, s: Script) -> Script:
    return _pending(rng, s)


def _computes(rng: Random, s: Script) -> Script:
    return replace(_pending(rng, s), first="working")


def _refused(rng: Random, s: Script) -> Script:
    end = rng.choice(("rejected", "failed"))
    return replace(_pending(rng, s), end=end) if rng.random() < 0.5 else replace(s, first=end, end=end)


def _odd_word(rng: Random, s: Script) -> Script:
    return replace(_pending(rng, s), first=rng.choice(ODD))


def _answer_lost(rng: Random, s: Script) -> Script:
    s = s if rng.random() < 0.5 else _pending(rng, s)
    return replace(s, call=tuple(rng.choice(DONE) for _ in range(rng.randint(1, 2))))


def _call_lost(rng: Random, s: Script) -> Script:
    s = s if rng.random() < 0.5 else _pending(rng, s)
    return replace(s, call=tuple(rng.choice(LOST) for _ in range(rng.randint(1, 2))))


def _in_flight(rng: Random, s: Script) -> Script:
    return replace(s, call=("drop", *("in_flight",) * rng.randint(2, 5)))


def _crowd(rng: Random, s: Script) -> Script:
    return replace(_pending(rng, s), seller=CROWDED, call=("delayed",), poll=("delayed",) * _EVERY_TIME)


def _flood(rng: Random, s: Script) -> Script:
    return replace(_pending(rng, s), seller=FLOODED, poll=("working",) * 3)


def _keys_unknown(rng: Random, s: Script) -> Script:
    return replace(_pending(rng, s), seller=SIGNED, post=("unknown_key",) * rng.randint(1, 2))


def _answer_late(rng: Random, s: Script) -> Script:
    s = s if rng.random() < 0.5 else _pending(rng, s)
    return replace(s, call=(rng.choice(("late", "delayed")),))


def _news_doubled(rng: Random, s: Script) -> Script:
    return replace(_pending(rng, s), seller=rng.choice(TELLING), told="doubled")


def _news_lost(rng: Random, s: Script) -> Script:
    return replace(_pending(rng, s), seller=rng.choice(TELLING), told="never")


def _news_broken(rng: Random, s: Script) -> Script:
    trouble = tuple(rng.choice(POST_TROUBLE) for _ in range(rng.randint(1, 2)))
    return replace(_pending(rng, s), seller=rng.choice(TELLING), post=trouble)


def _news_reordered(rng: Random, s: Script) -> Script:
    return replace(_pending(rng, s), seller=rng.choice(TELLING), told="reordered")


def _news_early(rng: Random, s: Script) -> Script:
    return replace(_pending(rng, s), seller=rng.choice(TELLING), pace_s=0.1, call=("delayed",), told="once")


def _polls_broken(rng: Random, s: Script) -> Script:
    trouble = tuple(rng.choice(POLL_TROUBLE) for _ in range(rng.randint(1, 3)))
    return replace(_pending(rng, s), seller="quiet", poll=trouble)


def _reads_broken(rng: Random, s: Script) -> Script:
    return replace(s, read=(rng.choice(("http_500", "html", "drop", "truncated")),))


def _contradicts(rng: Random, s: Script) -> Script:
    told = rng.choice(("then_rejected", "first_rejected", "then_another_buy"))
    return replace(_pending(rng, s), seller=rng.choice(TELLING), told=told, parked=True)


def _renames(rng: Random, s: Script) -> Script:
    return replace(_pending(rng, s), seller="quiet", pace_s=4.0, poll=("rename",) * 8, parked=True)


def _mute(rng: Random, s: Script) -> Script:
    return replace(s, always="drop", parked=True)


def _deaf(rng: Random, s: Script) -> Script:
    return replace(s, always="drop_before", parked=True)


def _held(rng: Random, s: Script) -> Script:
    """Whoever calls is told to come again in a second, however often."""
    return replace(s, always="in_flight", parked=True)


def _stuck(rng: Random, s: Script) -> Script:
    first = rng.choice(("submitted", "working", *ODD))
    return replace(s, first=first, pace_s=NEVER, parked=True)


def _asks(rng: Random, s: Script) -> Script:
    return replace(s, first="input-required", pace_s=NEVER, parked=True)


def _pending(rng: Random, s: Script) -> Script:
    return replace(s, first="submitted", pace_s=round(rng.uniform(0.2, 4.0), 2))


# Out of a thousand purchases (those of the flood apart), in words that stand in the report.
SHARES: dict[str, tuple[int, Callable[[Random, Script], Script]]] = {
    "bought at once": (75, _plain),
    "takes its time": (70, _slow),
    "computes": (60, _computes),
    "refuses": (80, _refused),
    "unheard-of status": (50, _odd_word),
    "answer lost or garbled": (150, _answer_lost),
    "call lost or refused": (70, _call_lost),
    "still in flight": (20, _in_flight),
    "crowd at one seller": (40, _crowd),
    "answer late": (50, _answer_late),
    "news doubled": (60, _news_doubled),
    "news lost": (40, _news_lost),
    "news corrupted": (40, _news_broken),
    "keys hard to get": (20, _keys_unknown),
    "news out of order": (35, _news_reordered),
    "news before the answer": (30, _news_early),
    "polls broken": (40, _polls_broken),
    "reads broken": (15, _reads_broken),
    "contradicts itself": (20, _contradicts),
    "renames the task each time": (5, _renames),
    "bought, never says so": (10, _mute),
    "never takes the call": (5, _deaf),
    "in flight for ever": (5, _held),
    "never ends": (5, _stuck),
    "asks and waits": (5, _asks),
}


def plan(*, seed: int, operations: int) -> list[Script]:
    """The scripts of purchases 1 to `operations`; the first ones are the flood."""
    rng = Random(f"{seed}:{operations}")  # noqa: S311 - a plan, no secret
    flood = min(_FLOOD, operations // _FLOOD_OF)
    groups = list(_groups(_kinds(operations - flood)))
    rng.shuffle(groups)
    kinds = chain([FLOOD] * flood, *groups)
    return [_script(seed, number, kind) for number, kind in enumerate(kinds, start=1)]


def _groups(kinds: Sequence[str]) -> Iterator[list[str]]:
    """Each by itself, but what crowds at one seller."""
    crowd = [kind for kind in kinds if SHARES[kind][1] is _crowd]
    yield from ([kind] for kind in kinds if SHARES[kind][1] is not _crowd)
    yield from (crowd[start : start + _CROWD] for start in range(0, len(crowd), _CROWD))


def _script(seed: int, number: int, kind: str) -> Script:
    rng = Random(f"{seed}:{number}:{kind}")  # noqa: S311 - a plan, no secret
    script = Script(number=number, kind=kind, seller=rng.choice(_ANY))
    return _flood(rng, script) if kind == FLOOD else SHARES[kind][1](rng, script)


def _kinds(operations: int) -> list[str]:
    """As many of each kind as their shares say: the largest remainders make up the number."""
    exact = {kind: share * operations / 1000 for kind, (share, _) in SHARES.items()}
    counts = {kind: int(value) for kind, value in exact.items()}
    rest = sorted(exact, key=lambda kind: exact[kind] - counts[kind], reverse=True)
    for kind in rest[: operations - sum(counts.values())]:
        counts[kind] += 1
    return [kind for kind, count in counts.items() for _ in range(count)]
