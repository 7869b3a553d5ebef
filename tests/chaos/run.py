"""One run: deals, kills and a stop until nothing moves any more; then the verdict."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from django.db import InterfaceError, OperationalError, connections

from tasks_app.adcp.types import DiscoveryError
from tests.chaos import judge
from tests.chaos.buyer import WINDOW, Buyer
from tests.chaos.kills import Killer
from tests.chaos.plan import Scenario
from tests.chaos.product import Product, StartError

_LIMIT_S = 13 * 60
_PATIENCE_S = 180  # without a purchase that gets done
_TICK_S = 0.2
_PROGRESS_S = 15
_STOP_S = 6  # how long the kill switch is on before the day passes, and after it
_EXPIRE_FROM = 0.4  # share of the purchases that are done when the endless ones expire
_LARGE = 1000
_READ_AGAIN = 10


def play(product: Product, scenarios: list[Scenario], *, seed: int) -> int:
    """Return the exit code: 0 if every condition holds, otherwise 1. Raise StartError."""
    run = _Run(product, scenarios, seed)
    run.until_rest()
    found = run.gather()
    differences = run.reconcile(found)
    counts = {"differences": len(differences), "kills": run.killer.kills.total(), "held": run.held}
    summary = judge.summarize(found, **counts, seed=seed)
    wrong = judge.verdict(summary, trail_is_sound=judge.is_trail_sound())
    for purchase in found:
        if problems := [*purchase.problems()]:
            print(f"{' '.join(purchase.names())}: {'; '.join(problems)}; {purchase.scenario}")
    for row in differences:
        print(f"difference: {json.dumps(row)}")
    for condition in wrong:
        print(f"BROKEN: {condition}")
    print(json.dumps(summary), flush=True)
    return 1 if wrong else 0


class _Run:
    """The loop that orders, stops and kills. `held`: purchases that the stop held."""

    def __init__(self, product: Product, scenarios: list[Scenario], seed: int) -> None:
        self._product, self._scenarios = product, scenarios
        self._buyer = Buyer(scenarios)
        try:
            self._buyer.prepare(product)
        except DiscoveryError as error:
            raise StartError(f"a seller did not answer: {error}") from error
        rounds = 3 if len(scenarios) >= _LARGE else 1
        self.killer = Killer(product, seed=seed, operations=len(scenarios), rounds=rounds)
        self.held = 0
        self._began = self._moved_at = time.monotonic()
        self._printed_at = 0.0
        self._done = 0
        self._stop_is_over = False

    def gather(self) -> list[judge.Purchase]:
        sellers = self._product.sellers.values()
        return judge.gather(self._scenarios, sellers, approver=self._buyer.approver)

    def reconcile(self, found: list[judge.Purchase]) -> list[dict[str, str]]:
        """Return what `reconcile` finds. Repeat it while a killed seller starts again."""
        for _ in range(_READ_AGAIN):
            rows = judge.reconcile(found)
            if not any(row["verdict"] == "unread" for row in rows):
                break
            self._product.group.wait(timeout_s=1)
        return rows

    def until_rest(self) -> None:
        """Return when all is done and nothing moves, or when the time is over."""
        while time.monotonic() < min(self._began + _LIMIT_S, self._moved_at + _PATIENCE_S):
            self._product.group.wait(timeout_s=_TICK_S)
            try:
                self._step()
                if self._is_at_rest():
                    return
            except (OperationalError, InterfaceError):
                connections.close_all()  # the database was killed: the next step asks again
            if killed := self.killer.step(self._done):
                self._print(f"killed: {killed}")
            if time.monotonic() >= self._printed_at + _PROGRESS_S:
                self._printed_at = time.monotonic()
                self._print(f"{self._done} of {len(self._scenarios)} done")
        self._print("the time is over")

    def _step(self) -> None:
        done = self._buyer.count_done()
        self._buyer.step(done)
        if done != self._done:
            self._done, self._moved_at = done, time.monotonic()
        if done >= self._stop_from and not self._stop_is_over:
            self._stop_for_a_day()
        if done >= _EXPIRE_FROM * len(self._scenarios):
            self._buyer.expire_endless()

    @property
    def _stop_from(self) -> int:
        """After how many purchases the kill switch is turned on: enough of them are left to be held."""
        operations = len(self._scenarios)
        return max(0, min(operations // 2, operations - WINDOW - judge.fewest_held(operations)))

    def _stop_for_a_day(self) -> None:
        """Turn the kill switch on, let a day pass for what it holds, and turn it off."""
        self._buyer.set_kill_switch(on=True)
        self._print("the kill switch is on")
        fewest = judge.fewest_held(len(self._scenarios))
        self._order_until(lambda: self._buyer.count_held() >= fewest or not self._buyer.can_hold_more())
        self.held = self._buyer.pass_a_day()
        self._print(f"a day passes; {self.held} purchases are held")
        self._order_until(lambda: True)
        self._buyer.set_kill_switch(on=False)
        self._print("the kill switch is off")
        self._stop_is_over, self._moved_at = True, time.monotonic()

    def _order_until(self, condition: Callable[[], bool]) -> None:
        """Order and approve for `_STOP_S` seconds, and on until the condition holds."""
        began = time.monotonic()
        while time.monotonic() < began + _STOP_S or not condition():
            self._product.group.wait(timeout_s=_TICK_S)
            self._buyer.step(self._buyer.count_done())
            if time.monotonic() > began + _PATIENCE_S:
                return

    def _is_at_rest(self) -> bool:
        if not (self.killer.is_over and self._stop_is_over and self._buyer.is_at_rest(self._done)):
            return False
        due = "select 1 from {} where due_at is not null limit 1"
        sellers = self._product.sellers.values()
        if any(seller.rows(due.format(table)) for seller in sellers for table in ("tasks", "webhooks")):
            return False
        return not any(any(purchase.problems()) for purchase in self.gather())

    def _print(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:5.0f} s] {text}", flush=True)
