"""A look that fails, whatever it was, is told and made again, ever later: who watches misses nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tasks_app.jobs import feed as room
from tests.api.streaming import WATCHERS, Loop, followed, timed

WRONG_FROM, OVER_AT = 3.2, 400.0
WHERE = ["the signs", "the horizon", "the events", "handing over"]


def looked(
    monkeypatch: pytest.MonkeyPatch, loop: Loop, where: str, is_wrong: Callable[[], bool]
) -> list[float]:
    """When each look begins; `where` something raises while `is_wrong()`. Each finds something new."""
    looks: list[float] = []
    loop.takes = {"_read": 0.0, "_standing": 0.0}

    def raising(here: str) -> None:
        if here == where and is_wrong():
            raise LookupError(here)

    def signs(pages: Any) -> dict[Any, str]:
        looks.append(loop.time())
        raising("the signs")
        return {page: str(loop.time()) for page in pages}

    def horizon(_self: Any) -> tuple[int, None]:
        raising("the horizon")
        return 10**6, None

    def events(wanted: dict[uuid.UUID, int], *_: Any) -> dict[uuid.UUID, list[dict[str, Any]]]:
        raising("the events")
        last = int(loop.time() * 2) + 1
        return {
            job: [{"id": pk, "type": "step.queued"} for pk in range(after + 1, last + 1)]
            for job, after in wanted.items()
        }

    hand_over = room.Feed._hand_over

    def handed(feed: room.Feed, *told: Any) -> bool:
        raising("handing over")
        return hand_over(feed, *told)

    monkeypatch.setattr(room, "proofs_standing", lambda proofs: proofs if loop.time() < OVER_AT else set())
    monkeypatch.setattr(room, "connection", SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(room, "signs_of", signs)
    monkeypatch.setattr(room.Horizon, "look", horizon)
    monkeypatch.setattr(room, "events_behind", events)
    monkeypatch.setattr(room.Feed, "_hand_over", handed)
    return looks


def ids(sent: list[tuple[float, bytes]]) -> list[int]:
    return [int(line[4:]) for _, body in sent for line in body.splitlines() if line.startswith(b"id: ")]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("lasts", [0.1, 20.0, 200.0])
def test_who_watches_a_job_is_told_all_once_it_can_be_read(
    monkeypatch: pytest.MonkeyPatch, settings: Any, where: str, lasts: float
) -> None:
    settings.STREAM_TICK_S, settings.STREAM_HEARTBEAT_S, settings.STREAM_MOST_S = 0.5, 15.0, 900
    sent: list[tuple[float, bytes]] = []
    until = WRONG_FROM + lasts
    with timed() as loop, capture_logs() as told:
        looked(monkeypatch, loop, where, lambda: WRONG_FROM <= loop.time() < until)
        loop.run_until_complete(followed(WATCHERS["a job"](), sent))
    assert not [at for at, _ in sent if WRONG_FROM <= at < until]
    assert any(until <= at <= until + room._MOST_TROUBLE_S for at, _ in sent)
    assert ids(sent) == list(range(1, len(ids(sent)) + 1)), "nothing missed, nothing twice"
    assert "stream_look_failed" in {one["event"] for one in told} or lasts < settings.STREAM_TICK_S


def test_who_watches_a_page_is_told_its_sign_once_it_can_be_read(
    monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.STREAM_TICK_S, settings.STREAM_HEARTBEAT_S, settings.STREAM_MOST_S = 0.5, 15.0, 900
    sent: list[tuple[float, bytes]] = []
    until = WRONG_FROM + 50.0
    with timed() as loop:
        looked(monkeypatch, loop, "the signs", lambda: WRONG_FROM <= loop.time() < until)
        loop.run_until_complete(followed(WATCHERS["a page"](), sent))
    assert not [at for at, _ in sent if WRONG_FROM <= at < until]
    assert any(until <= at <= until + room._MOST_TROUBLE_S for at, _ in sent)


@pytest.mark.parametrize("where", WHERE)
def test_it_is_looked_again_ever_later_and_after_a_look_that_went_well_as_ever(
    monkeypatch: pytest.MonkeyPatch, settings: Any, where: str
) -> None:
    settings.STREAM_TICK_S, settings.STREAM_HEARTBEAT_S, settings.STREAM_MOST_S = 0.5, 15.0, 900
    until = WRONG_FROM + 200.0
    with timed() as loop:
        looks = looked(monkeypatch, loop, where, lambda: WRONG_FROM <= loop.time() < until)
        loop.run_until_complete(followed(WATCHERS["a job"](), []))
    wrong = [at for at in looks if WRONG_FROM <= at <= until + room._MOST_TROUBLE_S]
    gaps = [later - at for at, later in pairwise(wrong) if at < until]
    assert gaps == sorted(gaps)
    assert gaps[0] < gaps[1] < gaps[-1] == room._MOST_TROUBLE_S
    after = [at for at in looks if at > until + room._MOST_TROUBLE_S]
    assert after[1] - after[0] == settings.STREAM_TICK_S


def test_one_who_comes_while_it_fails_is_read_for_too(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.STREAM_TICK_S, settings.STREAM_HEARTBEAT_S, settings.STREAM_MOST_S = 0.5, 15.0, 900
    sent: list[tuple[float, bytes]] = []
    with timed() as loop:
        looked(monkeypatch, loop, "the events", lambda: loop.time() < 10.0)
        loop.run_until_complete(followed(WATCHERS["a job"](), sent))
    assert ids(sent) == list(range(1, len(ids(sent)) + 1))
    assert ids(sent)
