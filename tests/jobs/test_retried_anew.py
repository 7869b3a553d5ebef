"""What a chain of retries finds again, and what it does anew: one rule for steps, items and nested jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import uuid6

from tasks_app import clock
from tasks_app.jobs import endings
from tasks_app.jobs.actions import Done, Result, Run, StepFailedError
from tasks_app.jobs.endings import job_expire
from tasks_app.jobs.models import Job, JobStatus, Step
from tasks_app.jobs.retrying import job_retry
from tasks_app.jobs.worker import drain, run_step
from tasks_app.lifecycle.transitions import transition
from tasks_app.operations.models import Operation
from tasks_app.operations.ordering import PLACE, Order, order_run
from tests.factories import make_seller, make_team, make_user
from tests.jobs.claiming import claim_step
from tests.jobs.conftest import Bench, failing, statuses

pytestmark = pytest.mark.django_db

# The step x, as it may stand in a recipe, after a step a that puts out a list of one.
_SHAPES: dict[str, dict[str, Any]] = {
    "step": {"action": "buy"},
    "item": {"action": "buy", "for_each": "{{ steps.a.outputs.list }}"},
    "nested": {"recipe": "inner"},
    "nested item": {"recipe": "inner", "for_each": "{{ steps.a.outputs.list }}"},
    "nested twice": {"recipe": "outer"},
    "a fan-out in a nested job": {"recipe": "fanned"},
}
Plan = Callable[[str], None]


class Shop:
    """The action buy: a purchase that is with the seller; it breaks thereafter as often as `breaks` says."""

    def __init__(self) -> None:
        self.breaks = 0
        self._seller, self._team = make_seller(), make_team()

    def buy(self, run: Run) -> Result:
        order = Order(
            kind=PLACE,
            purpose=run.purpose("buy"),
            seller=self._seller,
            arguments=dict(run.inputs),
            team=self._team,
        )
        bought = order_run(order=order, actor="system", awaited=True)
        if bought.status == "requested":
            transition(bought, "calling_adcp", actor="system")
            transition(bought, "submitted", actor="system")
        if self.breaks:
            self.breaks -= 1
            raise StepFailedError("it broke after it had bought")
        return Done()


@pytest.fixture
def shop(bench: Bench) -> Shop:
    made = Shop()
    bench.action("buy", made.buy)
    bench.action("end", failing(1, lambda: StepFailedError("no end")))
    inputs = {"for": "{{ inputs.for | default('') }}"}
    bench.recipe({"id": "y", "action": "buy", "inputs": inputs}, name="inner")
    bench.recipe({"id": "z", "recipe": "inner"}, name="outer")
    bench.recipe({"id": "y", "action": "buy", "for_each": "{{ [1] }}"}, name="fanned")
    return made


def plan(bench: Bench, shape: str, *, a: Callable[[Run], Result] | None = None) -> None:
    bench.action("a", a or (lambda run: Done(outputs={"list": ["one"]})))
    bench.recipe(
        {"id": "a", "action": "a"},
        {"id": "x", "after": ["a"], **_SHAPES[shape]},
        {"id": "end", "action": "end", "after": ["x"]},
    )


def retried(job: Job, **fields: Any) -> Job:
    new = again(job, **fields)
    drain()
    new.refresh_from_db()
    return new


def again(job: Job, **fields: Any) -> Job:
    return job_retry(job_id=job.pk, actor=make_user("Ad Ops"), reason="mended", **fields)


def breaking_second() -> Callable[[Run], Result]:
    """A step that fails when it runs for the second time."""
    runs: list[int] = []

    def a(run: Run) -> Result:
        runs.append(1)
        if len(runs) == 2:
            raise StepFailedError("a broke")
        return Done(outputs={"list": ["one"]})

    return a


@pytest.mark.parametrize("shape", _SHAPES)
def test_what_was_bought_two_retries_ago_is_found(bench: Bench, shop: Shop, shape: str) -> None:
    """The retry between them never came so far."""
    plan(bench, shape, a=breaking_second())
    shop.breaks = 1
    first = bench.run()
    second = retried(first, from_step="a")
    assert (statuses(second)["a"], statuses(second)["x"]) == ("failed", "cancelled")
    third = retried(second)
    assert statuses(third)["x"] == "completed"
    assert Operation.objects.count() == 1


@pytest.mark.parametrize("from_step", ["a", "x"])
@pytest.mark.parametrize("shape", _SHAPES)
def test_from_a_step_on_all_below_is_done_anew_and_bought_once(
    bench: Bench, shop: Shop, shape: str, from_step: str
) -> None:
    plan(bench, shape)
    old = bench.run()
    ran = [key for key in bench.ran if key not in ("a", "end")]
    bench.ran.clear()
    new = retried(old, from_step=from_step)
    assert new.status == JobStatus.COMPLETED
    assert bench.ran == [*(["a"] if from_step == "a" else []), *ran, "end"]
    assert Operation.objects.count() == 1


@pytest.mark.parametrize("shape", _SHAPES)
def test_what_is_done_is_found_over_a_retry_that_did_nothing(bench: Bench, shop: Shop, shape: str) -> None:
    plan(bench, shape)
    first = bench.run()
    second = again(first)
    job_expire(job_id=second.pk, reason="Not done in time")
    bench.ran.clear()
    assert retried(second).status == JobStatus.COMPLETED
    assert bench.ran == ["end"]


@pytest.mark.parametrize("shape", _SHAPES)
def test_what_was_to_be_done_anew_is_so_in_the_retry_after(bench: Bench, shop: Shop, shape: str) -> None:
    """The first retry, from x on, ended before x had its turn."""
    plan(bench, shape)
    first = bench.run()
    ran = [key for key in bench.ran if key not in ("a", "end")]
    second = again(first, from_step="x")
    job_expire(job_id=second.pk, reason="Not done in time")
    bench.ran.clear()
    assert retried(second).status == JobStatus.COMPLETED
    assert bench.ran == [*ran, "end"]
    assert Operation.objects.count() == 1


def test_items_are_found_over_a_retry_that_did_nothing(bench: Bench) -> None:
    bench.action("odd", failing(1, lambda: StepFailedError("odd")))
    bench.recipe({"id": "each", "action": "odd", "for_each": "{{ inputs.list }}"})
    first = bench.run(inputs={"list": [0, 1, 2]})
    second = again(first)
    job_expire(job_id=second.pk, reason="Not done in time")
    bench.ran.clear()
    assert retried(second).status == JobStatus.COMPLETED
    assert bench.ran == ["each[0]"]


def test_items_are_found_by_what_they_are_for_wherever_they_stand(bench: Bench, shop: Shop) -> None:
    """A list in another order buys for each once; an equal one more is one more."""
    lists = iter((["p", "q", "p"], ["q", "p", "p", "p", "r"]))
    bench.action("a", lambda run: Done(outputs={"list": next(lists)}))
    bench.recipe(
        {"id": "a", "action": "a"},
        {"id": "x", "action": "buy", "after": ["a"], "for_each": "{{ steps.a.outputs.list }}"},
        {"id": "end", "action": "end", "after": ["x"]},
    )
    new = retried(bench.run(), from_step="a")
    assert (new.status, Operation.objects.count()) == (JobStatus.COMPLETED, 5)
    tied = dict(Step.objects.filter(job=new, fan_out__key="x").values_list("key", "lineage"))
    assert [key for key, lineage in sorted(tied.items()) if lineage is None] == ["x[3]", "x[4]"]


# As _SHAPES, each buying for what a put out now.
_OF_NOW: dict[str, dict[str, Any]] = {
    "step": {"action": "buy", "inputs": {"for": "{{ steps.a.outputs.list }}"}},
    "item": {**_SHAPES["item"], "inputs": {"for": "{{ item }}"}},
    "nested": {"recipe": "inner", "inputs": {"for": "{{ steps.a.outputs.list }}"}},
    "nested item": {**_SHAPES["nested item"], "inputs": {"for": "{{ item }}"}},
}


def listing(bench: Bench, shape: str, *lists: list[Any]) -> None:
    """x buys for the list that a puts out, another in each run; the job never comes to a good end."""
    left = iter(lists)
    bench.action("a", lambda run: Done(outputs={"list": next(left)}))
    bench.action("never", failing(len(lists), lambda: StepFailedError("no end")))
    bench.recipe(
        {"id": "a", "action": "a"},
        {"id": "x", "after": ["a"], **_OF_NOW[shape]},
        {"id": "end", "action": "never", "after": ["x"]},
    )


def bought() -> list[Any]:
    return [one["for"] for one in Operation.objects.order_by("id").values_list("request", flat=True)]


@pytest.mark.parametrize("shape", _OF_NOW)
def test_what_is_for_something_else_now_buys_nothing_beside_what_was_bought(
    bench: Bench, shop: Shop, shape: str
) -> None:
    """The purchase in its place stands: it is refused, in the retry and in every one after."""
    listing(bench, shape, ["p"], ["q"], ["r"], ["q"])
    job = bench.run()
    for _ in range(3):
        job = retried(job, from_step="a")
        assert statuses(job)["x"] == "failed"
        assert "was ordered in its place before" in job.error
        assert Operation.objects.count() == 1


@pytest.mark.parametrize("shape", ["item", "nested item"])
def test_an_item_that_is_back_finds_its_purchase_and_what_is_new_beside_it_buys(
    bench: Bench, shop: Shop, shape: str
) -> None:
    listing(bench, shape, ["p"], ["q"], ["p", "q"])
    refused = retried(bench.run(), from_step="a")
    assert (statuses(refused)["x"], bought()) == ("failed", ["p"])
    assert statuses(retried(refused, from_step="a"))["x"] == "completed"
    assert bought() == ["p", "q"]


@pytest.mark.parametrize(
    ("before", "now", "then"),
    [
        (["p", "q"], ["p", "r"], ["p", "q"]),
        (["p", "q"], ["q", "r"], ["p", "q"]),
        (["p", "q"], ["r"], ["p", "q"]),
        (["p"], ["q", "r"], ["p", "r"]),  # q, in p's place, is refused; r is one more
        (["p", "q"], ["r", "s", "t"], ["p", "q", "t"]),
    ],
)
@pytest.mark.parametrize("shape", ["item", "nested item"])
def test_as_many_items_are_refused_as_bought_what_is_not_in_the_list_any_more(
    bench: Bench, shop: Shop, shape: str, before: list[Any], now: list[Any], then: list[Any]
) -> None:
    listing(bench, shape, before, now)
    job = retried(bench.run(), from_step="a")
    assert (statuses(job)["x"], bought()) == ("failed", then)


@pytest.mark.parametrize("shape", ["item", "nested item"])
def test_what_was_bought_and_came_to_nothing_is_in_nobodys_way(bench: Bench, shop: Shop, shape: str) -> None:
    """The first purchase failed, so another may be made in its place, and the first again beside that."""
    listing(bench, shape, ["p"], ["q"], ["p", "q"])
    first = bench.run()
    transition(Operation.objects.get(), "failed", actor="system")
    second = retried(first, from_step="a")
    assert (statuses(second)["x"], bought()) == ("completed", ["p", "q"])
    assert statuses(retried(second, from_step="a"))["x"] == "completed"
    assert bought() == ["p", "q", "p"]


def counting() -> Callable[[Run], Result]:
    count: list[int] = []

    def a(run: Run) -> Result:
        count.append(1)
        return Done(outputs={"n": len(count)})

    return a


@pytest.mark.parametrize("broke", [True, False])
def test_a_nested_job_has_the_inputs_of_now(bench: Bench, broke: bool) -> None:
    seen: list[Any] = []

    def x(run: Run) -> Result:
        seen.append(run.job.inputs)
        if broke and len(seen) == 1:
            raise StepFailedError("x broke")
        return Done()

    bench.action("x", x)
    bench.action("a", counting())
    bench.action("end", failing(0 if broke else 1, lambda: StepFailedError("no end")))
    bench.recipe({"id": "x", "action": "x"}, name="inner")
    bench.recipe(
        {"id": "a", "action": "a"},
        {"id": "top", "recipe": "inner", "after": ["a"], "inputs": {"n": "{{ steps.a.outputs.n }}"}},
        {"id": "end", "action": "end", "after": ["top"]},
        name="outer",
    )
    assert retried(bench.run("outer"), from_step="a").status == JobStatus.COMPLETED
    assert seen == [{"n": 1}, {"n": 2}]


def test_what_speaks_of_a_step_that_runs_again_is_done_anew(bench: Bench) -> None:
    """An optional step failed and comes to something now: what was done without it may be other now; what
    never asked for it stays."""
    bench.action("maybe", failing(1, lambda: StepFailedError("not now")))
    bench.action("end", failing(1, lambda: StepFailedError("no end")))
    said = "{{ steps.maybe.outputs.attempt | default(0) if steps.maybe is defined else 0 }}"
    bench.recipe(
        {"id": "maybe", "action": "maybe", "optional": True},
        {"id": "asks", "after": ["maybe"], "inputs": {"n": said}},
        {"id": "other", "after": ["maybe"]},
        {"id": "end", "action": "end", "after": ["asks", "other"]},
    )
    old = bench.run()
    bench.ran.clear()
    assert retried(old).status == JobStatus.COMPLETED
    assert bench.ran == ["maybe", "asks", "end"]


def test_an_attempt_that_was_overtaken_by_a_retry_orders_nothing(bench: Bench, shop: Shop) -> None:
    """Its job expired and was retried while its action ran, slowly, towards the purchase."""
    first: list[Job] = []

    def slow(run: Run) -> Result:
        if not first:
            first.append(run.job)
            job_expire(job_id=run.job.pk, reason="Not done in time")
            again(run.job)
            other = claim_step()
            assert other is not None
            run_step(other)
        return shop.buy(run)

    bench.action("slow", slow)
    bench.recipe({"id": "x", "action": "slow"})
    old = bench.run()
    assert Job.objects.get(retry_of=old).status == JobStatus.COMPLETED
    assert Operation.objects.count() == 1


@pytest.fixture
def three_storeys(bench: Bench, shop: Shop) -> Job:
    """A job with a nested one and one nested in that, whose purchase waits for its next try."""
    hiccups = [1]

    def buy(run: Run) -> Result:
        if hiccups:
            hiccups.pop()
            raise ValueError("a hiccup")
        return shop.buy(run)

    bench.action("late_buy", buy)
    bench.recipe({"id": "y", "action": "late_buy"}, name="lowest")
    bench.recipe({"id": "z", "recipe": "lowest"}, name="lower")
    bench.recipe({"id": "top", "recipe": "lower"}, name="whole")
    return bench.run("whole")


@pytest.mark.parametrize("ended", [("whole",), ("whole", "lower")])
def test_a_nested_job_that_outlived_its_job_ends_before_the_retry(
    three_storeys: Job, ended: tuple[str, ...]
) -> None:
    """The process died between the job's end and that of the jobs nested in it, on whichever storey."""
    for recipe in ended:
        job = Job.objects.get(recipe=recipe)
        assert endings._cut_short(job.pk, JobStatus.EXPIRED, "system", "Not done in time") is not None
    new = again(three_storeys)
    below = Job.objects.filter(retry_of=None).exclude(pk=three_storeys.pk)
    assert set(below.values_list("recipe", "status")) == {("lower", "EXPIRED"), ("lowest", "EXPIRED")}
    for _ in range(2):
        drain()
        Step.objects.filter(status="awaiting_tool", waiting_for__type="backoff").update(ready_at=clock.now())
    new.refresh_from_db()
    assert (new.status, Operation.objects.count()) == (JobStatus.COMPLETED, 1)


@pytest.mark.parametrize("shape", _SHAPES)
def test_the_first_ran_on_a_host_that_is_ahead(
    bench: Bench, shop: Shop, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows have keys of a minute from now; who retries is on another host."""

    made = uuid6.uuid7
    plan(bench, shape)
    shop.breaks = 1
    with monkeypatch.context() as patch:
        patch.setattr(uuid6, "uuid7", lambda: uuid6.UUID(int=made().int + (60_000 << 80)))
        first = bench.run()
    assert Operation.objects.count() == 1
    retried(first)
    assert Operation.objects.count() == 1
