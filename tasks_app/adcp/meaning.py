"""What an answer means for its task: one table, over facts that every transport and channel tells alike.

Sources: AdCP reference/migration/media-buy-status (3.0 and 3.1 put the media buy's status where the task's
belongs; sellers that answer for a task as they answered the call do it there too), L3/task-lifecycle,
L3/webhooks ("Do not collapse the two fields"), its receiver's test vectors, protocol/get-task-status,
operating/transport-errors. The rows are tried in their order, the first that fits decides; what fits none is
as told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Literal

from .types import ENDED_BADLY, MEDIA_BUY_STATUSES, TASK_STATUSES

# Where an answer comes from: the reply to the task itself, one that is the task's own record, a poll of it,
# an item of a list of tasks, a webhook, or a media buy that was found by our context.
About = Literal["call", "task", "poll", "item", "webhook", "buy"]
OF_A_TASK: frozenset[str] = frozenset({"task", "poll", "item", "webhook"})

PURCHASE, CHANGE = "create_media_buy", "update_media_buy"
NONE, UNKNOWN, AS_TOLD, INNER = "", "unknown", "as told", "as told within"
# Words that only a media buy has, and those that it shares with tasks.
ONLY_A_BUYS = MEDIA_BUY_STATUSES - TASK_STATUSES

_RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})")


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What an answer tells, after it was unwrapped; null is absent.

    `failed`: the call itself did (`isError`, `adcp_error`, a failed transport task). `refused`: an
    `adcp_error` or `isError` stands in what is told of the task. `word`: the status told of the task, in
    AdCP's spelling, empty where none is. `inner`: the bad end that the result tells of itself. `names_buy`
    and `names_task`: whether a media buy, a task of the seller's is named. `buy`: the media buy's status is
    told as `none`, `rejected`, `canceled`, one with which it `runs` (or will, or did), or an `unclear` word.
    `errors`: `none`, `beside` a result, or `alone`. `removed`: the seller names a release of 3.2 or later, in
    which the media buy's status no longer stands in the task's place. `task`: which task it was, empty where
    nobody says.
    """

    about: str
    failed: bool = False
    refused: bool = False
    word: str = NONE
    inner: str = NONE
    names_buy: bool = False
    names_task: bool = False
    buy: str = "none"
    errors: str = "none"
    removed: bool = False
    task: str = ""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table: what must hold (None: whatever), the task's status then, and why. `of_the_buy`:
    the word is the media buy's."""

    means: str
    why: str
    about: frozenset[str] | None = None
    failed: bool | None = None
    refused: bool | None = None
    word: frozenset[str] | None = None
    inner: frozenset[str] | None = None
    names_buy: bool | None = None
    names_task: bool | None = None
    buy: frozenset[str] | None = None
    errors: frozenset[str] | None = None
    removed: bool | None = None
    task: frozenset[str] | None = None
    of_the_buy: bool = False

    def fits(self, facts: Facts) -> bool:
        return all(_holds(getattr(self, one.name), getattr(facts, one.name)) for one in fields(facts))


def _of(*words: str) -> frozenset[str]:
    return frozenset(words)


_SUCCESS = ONLY_A_BUYS | _of("completed", NONE)
# What may have bought something: a task that nobody names may be a purchase.
_BUYS = _of(PURCHASE, "")

ROWS: tuple[Row, ...] = (
    Row(about=_of("poll"), failed=True, means=UNKNOWN, why="a failed poll tells nothing of the task"),
    Row(failed=True, word=ENDED_BADLY, means=AS_TOLD, why="the call failed, and says how the task ended"),
    Row(failed=True, means="failed", why="isError and adcp_error are never success"),
    Row(refused=True, word=_SUCCESS, means="failed", why="adcp_error is never success"),
    Row(about=_of("buy"), word=_of("rejected"), means="rejected", why="the seller turned the buy down"),
    Row(about=_of("buy"), means="completed", why="a buy that exists was bought"),
    Row(
        task=_BUYS,
        buy=_of("rejected"),
        word=_SUCCESS,
        means="rejected",
        why="a purchase told rejected is none",
    ),
    Row(
        task=_BUYS,
        errors=_of("alone"),
        buy=_of("runs"),
        word=_SUCCESS,
        means=UNKNOWN,
        why="errors, and a buy that runs under no name: read back",
    ),
    Row(errors=_of("alone"), word=_SUCCESS, means="failed", why="errors without what was asked for"),
    Row(
        about=OF_A_TASK,
        word=_of("completed"),
        inner=ENDED_BADLY,
        names_buy=False,
        means=INNER,
        why="the result says how the task ended",
    ),
    Row(
        about=OF_A_TASK,
        task=_BUYS,
        word=ONLY_A_BUYS | _of("completed"),
        inner=ENDED_BADLY,
        names_buy=True,
        buy=_of("none"),
        means=UNKNOWN,
        why="a purchase completed that its result says came to nothing: asked again",
    ),
    Row(
        about=_of("webhook"),
        word=ONLY_A_BUYS,
        means=UNKNOWN,
        why="a webhook's status is never the buy's (invalid_envelope_status): the seller is asked",
    ),
    Row(
        about=OF_A_TASK | _of("call"),
        word=ONLY_A_BUYS,
        names_buy=True,
        means="completed",
        of_the_buy=True,
        why="3.0 and 3.1: the buy's status in the task's place, the task is completed",
    ),
    Row(
        about=_of("call"),
        task=_BUYS,
        word=ENDED_BADLY,
        buy=_of("runs"),
        means=UNKNOWN,
        why="a purchase that came to nothing, and a buy that runs: read back",
    ),
    Row(
        about=_of("call"),
        word=_of("canceled"),
        names_buy=True,
        buy=_of("canceled"),
        errors=_of("none"),
        removed=False,
        means="completed",
        of_the_buy=True,
        why="3.1: the buy's status under both names",
    ),
    Row(
        about=_of("call"),
        word=_of("canceled"),
        names_buy=True,
        buy=_of("none", "unclear"),
        errors=_of("none"),
        removed=False,
        task=_of(PURCHASE),
        means=UNKNOWN,
        why="a purchase, or its buy, is cancelled: read back",
    ),
    Row(
        about=_of("call"),
        word=_of("canceled"),
        names_buy=True,
        buy=_of("none"),
        errors=_of("none"),
        removed=False,
        means="completed",
        of_the_buy=True,
        why="3.0: the buy is cancelled, the task that did it completed",
    ),
    Row(
        about=_of("call"),
        word=_of("rejected"),
        names_buy=True,
        buy=_of("rejected"),
        errors=_of("none"),
        removed=False,
        task=_of(CHANGE),
        means="completed",
        of_the_buy=True,
        why="3.1: the buy's status under both names; what the change did is read back",
    ),
    Row(
        about=_of("call"),
        word=_of(NONE),
        names_buy=False,
        names_task=True,
        means=UNKNOWN,
        why="a task is named, and not how it stands: it is asked",
    ),
    Row(
        about=_of("call"),
        task=_of(PURCHASE),
        word=_of(NONE),
        names_buy=False,
        means=UNKNOWN,
        why="a purchase without a status names what was bought, in every version",
    ),
    Row(about=_of("call"), word=_of(NONE), means="completed", why="3.0 results name no status"),
)


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """The task's status, and whether the word told is the media buy's instead."""

    status: str
    of_the_buy: bool = False


def meaning(facts: Facts) -> Meaning:
    """What the facts mean for the task: by the first row that fits, else as told."""
    row = next((row for row in ROWS if row.fits(facts)), None)
    if row is None or row.means == AS_TOLD:
        return Meaning(status=facts.word if facts.word in TASK_STATUSES else UNKNOWN)
    if row.means == INNER:
        return Meaning(status=facts.inner)
    return Meaning(status=row.means, of_the_buy=row.of_the_buy)


def plain_word(word: object) -> str:
    """A seller's word in AdCP's spelling ("TASK_STATE_INPUT_REQUIRED" is "input-required"); a media buy's
    stays as it is."""
    if not isinstance(word, str):
        return NONE
    lower = word.removeprefix("TASK_STATE_").lower()
    return lower if lower in ONLY_A_BUYS else lower.replace("_", "-")


def is_removed(release: object) -> bool:
    """Whether a release named by a seller has given the media buy's status a place of its own alone."""
    named = _RELEASE.match(str(release)) if isinstance(release, str | float) else None
    return named is not None and (int(named[1]), int(named[2])) >= (3, 2)


def _holds(wanted: object, told: object) -> bool:
    if wanted is None:
        return True
    return told in wanted if isinstance(wanted, frozenset) else told == wanted
