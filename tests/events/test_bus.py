"""Who subscribes to what; what is refused."""

from __future__ import annotations

import pytest

from tasks_app.events.bus import Subscriber, subscribe, subscribers

pytestmark = pytest.mark.usefixtures("nobody")


def ignore(_event: object) -> None:
    """Wants nothing of it."""


@pytest.mark.parametrize(
    ("types", "event", "wanted"),
    [
        (["*"], "deal.booked", True),
        (["deal.*"], "deal.booked", True),
        (["deal.*"], "campaign.completed", False),
        (["deal.booked"], "deal.booked", True),
        (["deal.booked"], "deal.booking", False),
        (["deal.booked", "job.*"], "job.FAILED", True),
        (["step.failed", "job.FAILED"], "deal.failed", False),
    ],
)
def test_types_and_wildcards(types: list[str], event: str, wanted: bool) -> None:
    subscribe("one", types, ignore)
    (one,) = subscribers()
    assert one.wants(event) is wanted


@pytest.mark.parametrize(
    "types", [["deal.boked"], ["*.booked"], ["deal"], ["deal."], [""], ["**"], ["thing.*"], [], "deal.*"]
)
def test_a_type_that_never_comes_is_refused(types: list[str]) -> None:
    with pytest.raises(ValueError, match="one"):
        subscribe("one", types, ignore)
    assert subscribers() == ()


@pytest.mark.parametrize("name", ["", "One", "a b", "a" * 65, "1st", "x'; drop"])
def test_a_name_is_short_and_plain(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        subscribe(name, ["*"], ignore)


def test_a_name_is_taken_once() -> None:
    subscribe("one", ["*"], ignore)
    with pytest.raises(ValueError, match="already"):
        subscribe("one", ["deal.*"], ignore)
    assert subscribers() == (Subscriber(name="one", types=frozenset({"*"}), handler=ignore),)
