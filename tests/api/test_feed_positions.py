"""A stream shows each watcher everything behind its own position, whoever else watches."""

from __future__ import annotations

import uuid
from typing import Any

from tasks_app.jobs import feed as room
from tasks_app.jobs.feed import Feed, Watcher

JOB = uuid.uuid4()


def told(*ids: int) -> list[dict[str, Any]]:
    return [{"id": number, "type": "step.queued"} for number in ids]


def seen(watcher: Watcher) -> list[int]:
    return [event["id"] for event in watcher.take()]


def look(feed: Feed, meanwhile: Any, stored: list[int]) -> bool:
    """One look of the reader, in the middle of which `meanwhile()` happens."""
    wanted = feed._wanted()
    meanwhile()
    found = {job: told(*[i for i in stored if i > after]) for job, after in wanted.items()}
    return feed._hand_over(wanted, max(stored), found)


def test_one_that_joins_during_a_look_misses_nothing() -> None:
    feed, first, second = Feed(), Watcher(JOB, 5, None), Watcher(JOB, 3, None)
    feed._watchers.add(first)

    assert look(feed, lambda: feed._watchers.add(second), [4, 5, 6]), "there is more to read, at once"
    assert (seen(first), seen(second)) == ([6], [])
    look(feed, lambda: None, [4, 5, 6])
    assert (seen(first), seen(second)) == ([], [4, 5, 6])


def test_a_slow_one_that_takes_again_during_a_look_misses_nothing(monkeypatch: Any) -> None:
    monkeypatch.setattr(room, "_MOST_KEPT", 2)
    feed, quick, slow = Feed(), Watcher(JOB, 0, None), Watcher(JOB, 0, None)
    feed._watchers |= {quick, slow}
    look(feed, lambda: None, [1, 2])
    got: list[int] = []
    assert seen(quick) == [1, 2]
    look(feed, lambda: None, [1, 2, 3])  # for the quick one alone
    assert slow.is_full

    look(feed, lambda: got.extend(seen(slow)), [1, 2, 3, 4])
    look(feed, lambda: None, [1, 2, 3, 4])
    assert got + seen(slow) == [1, 2, 3, 4]
    assert seen(quick) == [3, 4]
