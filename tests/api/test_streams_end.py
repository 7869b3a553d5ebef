"""How long a stream goes on after the login has ended by which it is watched, by a clock that only waiting
moves: five seconds at most, whatever the settings say, however long the database takes, and where it cannot
be asked whether the login stands."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError

from tasks_app.jobs import feed as room
from tests.api.streaming import WATCHERS, Loop, followed, timed

WITHIN = 5.0  # what docs/operating.md promises
ENDS_AT = 7.3


@pytest.mark.parametrize("watched", WATCHERS)
@pytest.mark.parametrize("look_takes", [0.0, 0.4, 30.0])
@pytest.mark.parametrize("tick", [0.05, 0.5, 60.0])
@pytest.mark.parametrize("heartbeat", [0.3, 15.0, 600.0])
def test_a_stream_ends_soon_after_its_login(
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
    watched: str,
    look_takes: float,
    tick: float,
    heartbeat: float,
) -> None:
    settings.STREAM_TICK_S, settings.STREAM_HEARTBEAT_S = tick, heartbeat
    with timed() as loop:
        loop.takes = {"_read": look_takes, "_standing": 1.5}

        def standing(proofs: set[str]) -> set[str]:
            return proofs if loop.time() < ENDS_AT else set()

        monkeypatch.setattr(room, "proofs_standing", standing)
        monkeypatch.setattr(room, "connection", SimpleNamespace(close=lambda: None))
        monkeypatch.setattr(room, "signs_of", lambda _pages: {})
        monkeypatch.setattr(room, "events_behind", lambda wanted, *_: {job: [] for job in wanted})
        monkeypatch.setattr(room.Horizon, "look", lambda _self: (0, None))
        until = loop.run_until_complete(followed(WATCHERS[watched](), []))
    assert ENDS_AT <= until <= ENDS_AT + WITHIN


UNKNOWN_FROM, UNKNOWN_TO, OVER_AT = 7.3, 40.0, 60.0


def _hangs(loop: Loop) -> None:
    loop.takes["_standing"] = UNKNOWN_TO - loop.time()


def _is_lost(_loop: Loop) -> None:
    raise OperationalError


def _is_wrong(_loop: Loop) -> None:
    raise LookupError


_TROUBLES: dict[str, Callable[[Loop], None]] = {
    "it hangs": _hangs,
    "the database is lost": _is_lost,
    "anything else": _is_wrong,
}


@contextmanager
def _unknown(
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
    trouble: str,
    *,
    ends_at: float,
    begins_at: float = UNKNOWN_FROM,
) -> Iterator[Loop]:
    """For a while nobody can tell whether a login stands; the reader finds something new at every look."""
    settings.STREAM_TICK_S, settings.STREAM_HEARTBEAT_S = 0.5, 15.0
    with timed() as loop:
        loop.takes = {"_read": 0.0, "_standing": 0.1}

        def standing(proofs: set[str]) -> set[str]:
            loop.takes["_standing"] = 0.1
            if begins_at <= loop.time() < UNKNOWN_TO:
                _TROUBLES[trouble](loop)
            return proofs if loop.time() < ends_at else set()

        def events(wanted: dict[uuid.UUID, int], *_: Any) -> dict[uuid.UUID, list[dict[str, Any]]]:
            last = int(loop.time() * 2) + 1
            return {
                job: [{"id": pk, "type": "step.queued"} for pk in range(after + 1, last + 1)]
                for job, after in wanted.items()
            }

        monkeypatch.setattr(room, "proofs_standing", standing)
        monkeypatch.setattr(room, "connection", SimpleNamespace(close=lambda: None))
        monkeypatch.setattr(room, "signs_of", lambda pages: {page: str(loop.time()) for page in pages})
        monkeypatch.setattr(room, "events_behind", events)
        monkeypatch.setattr(room.Horizon, "look", lambda _self: (10**6, None))
        yield loop


@pytest.mark.parametrize("watched", WATCHERS)
@pytest.mark.parametrize("trouble", _TROUBLES)
def test_nothing_is_told_while_it_is_unknown_whether_the_login_stands(
    monkeypatch: pytest.MonkeyPatch, settings: Any, watched: str, trouble: str
) -> None:
    sent: list[tuple[float, bytes]] = []
    with _unknown(monkeypatch, settings, trouble, ends_at=UNKNOWN_FROM) as loop:
        until = loop.run_until_complete(followed(WATCHERS[watched](), sent))
    told_at = [at for at, _ in sent]
    assert max(told_at) >= UNKNOWN_FROM - 1.0, "told while it stood"
    assert max(told_at) <= UNKNOWN_FROM + WITHIN
    assert UNKNOWN_TO <= until <= UNKNOWN_TO + WITHIN, "looked at again, by itself"


@pytest.mark.parametrize("watched", WATCHERS)
@pytest.mark.parametrize("trouble", _TROUBLES)
def test_what_came_meanwhile_is_told_once_the_login_is_known_to_stand(
    monkeypatch: pytest.MonkeyPatch, settings: Any, watched: str, trouble: str
) -> None:
    sent: list[tuple[float, bytes]] = []
    with _unknown(monkeypatch, settings, trouble, ends_at=OVER_AT) as loop:
        until = loop.run_until_complete(followed(WATCHERS[watched](), sent))
    told_at = [at for at, _ in sent]
    assert not [at for at in told_at if UNKNOWN_FROM + WITHIN < at < UNKNOWN_TO]
    assert [at for at in told_at if UNKNOWN_TO <= at <= UNKNOWN_TO + WITHIN]
    assert OVER_AT <= until <= OVER_AT + WITHIN
    if watched == "a job":
        ids = [int(line[4:]) for _, body in sent for line in body.splitlines() if line.startswith(b"id: ")]
        assert ids == list(range(1, len(ids) + 1)), "nothing missed, nothing twice"


@pytest.mark.parametrize("watched", WATCHERS)
def test_who_takes_slowly_is_told_nothing_that_was_given_long_ago(
    monkeypatch: pytest.MonkeyPatch, settings: Any, watched: str
) -> None:
    sent: list[tuple[float, bytes]] = []
    with _unknown(monkeypatch, settings, "it hangs", ends_at=UNKNOWN_FROM) as loop:
        loop.run_until_complete(followed(WATCHERS[watched](), sent, sending_takes=6.5))
    assert len(sent) > 1
    assert all(at <= UNKNOWN_FROM + WITHIN for at, _ in sent)


@pytest.mark.parametrize("watched", WATCHERS)
def test_who_was_let_in_long_ago_is_told_nothing_before_the_login_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, settings: Any, watched: str
) -> None:
    """Django took long over its answer, and the look hangs from the start."""
    sent: list[tuple[float, bytes]] = []
    with _unknown(monkeypatch, settings, "it hangs", ends_at=0.0, begins_at=0.0) as loop:
        loop.run_until_complete(followed(WATCHERS[watched](), sent, let_in_at=-WITHIN))
    assert not sent
