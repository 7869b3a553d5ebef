"""How much strangers may have: each of them, and all together."""

from __future__ import annotations

from tasks_app.allowances import _REMEMBERED, Allowance, Rate, network_of


class Hands:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def allowance(*, each: tuple[float, float], in_all: tuple[float, float]) -> tuple[Allowance, Hands]:
    hands = Hands()
    of_each, of_all = (Rate(per_s=per_s, most=most) for per_s, most in (each, in_all))
    return Allowance(each=of_each, in_all=of_all, time=hands), hands


def taken(given: Allowance, sender: str, times: int) -> int:
    return sum(given.take(sender) is None for _ in range(times))


def test_each_has_what_it_saved_and_then_what_comes_back() -> None:
    given, hands = allowance(each=(2, 10), in_all=(1000, 1000))
    assert taken(given, "a", 50) == 10
    assert given.take("a") == 1, "after a second there is more"
    assert taken(given, "b", 50) == 10, "another has its own"
    hands.now = 3
    assert taken(given, "a", 50) == 6
    hands.now = 1000
    assert taken(given, "a", 50) == 10, "no more is saved up"


def test_all_together_have_no_more_however_many_they_are() -> None:
    given, hands = allowance(each=(2, 10), in_all=(5, 40))
    assert sum(taken(given, f"s{number}", 10) for number in range(100)) == 40
    hands.now = 10
    again = sum(taken(given, f"s{number}", 10) for number in range(100))
    assert again <= 50


def test_who_comes_rarely_is_let_in_while_many_ask_without_end() -> None:
    given, hands = allowance(each=(0.1, 10), in_all=(10, 40))
    crowd = [f"s{number}" for number in range(100)]
    for second in range(300):  # each asks once a second, much more than comes back to it
        hands.now = float(second)
        for sender in crowd:
            given.take(sender)
    assert given.take("somebody quiet") is None
    assert given.take(crowd[0]) is not None


def test_whoever_comes_while_too_many_are_remembered_shares_one_allowance() -> None:
    given, hands = allowance(each=(1, 2), in_all=(1e9, 1e9))
    for number in range(_REMEMBERED):
        given.take(f"s{number}")
    assert sum(given.take(f"new {number}") is None for number in range(100)) == 2
    hands.now = 60
    assert sum(given.take(f"newer {number}") is None for number in range(100)) == 100, "forgotten again"


def test_who_has_one_address_of_a_network_has_all_of_them() -> None:
    assert network_of("192.0.2.7") == "192.0.2.7"
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff") != network_of("2001:db8:0:1::1")
    assert network_of("not an address") == "unknown"
