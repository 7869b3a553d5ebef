"""What becomes of an attempt that does not end well: failed for good, or tried again within the budgets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from django.db import transaction

from tasks_app.commands.boundary import EffectRefusedError
from tasks_app.commands.services import IdempotencyKeyConflictError
from tasks_app.jobs import claims, engine, events
from tasks_app.jobs.actions import StepFailedError
from tasks_app.jobs.models import STEP_ENDED, Step, StepStatus
from tasks_app.jobs.recipes import RecipeError, StepSpec
from tasks_app.jobs.retries import Budget, decide
from tasks_app.jobs.templates import TemplateFailedError

log = structlog.get_logger(__name__)
_ANOTHER = "It wants something other than what was ordered in its place before; nothing more is ordered"


@contextmanager
def attempt(step: Step) -> Iterator[None]:
    """Around the step's work and what records it: what the block raises is recorded and costs a failure, or
    the step where trying again cannot help; never the worker."""
    with structlog.contextvars.bound_contextvars(trace_id=f"step:{step.pk}", job=step.job.reference):
        try:
            yield
        except (StepFailedError, RecipeError, TemplateFailedError, EffectRefusedError) as error:
            engine.mark_failed(step=step, error=str(error))
        except IdempotencyKeyConflictError as error:  # its inputs stay what they are: no try helps
            engine.mark_failed(step=step, error=f"{_ANOTHER} ({error})")
        except Exception as error:  # an action may raise anything
            log.exception("step_failed", step=step.key)
            _retry_or_fail(step, f"{type(error).__name__}: {error}")


def refuse_exhausted(step: Step, spec: StepSpec) -> None:
    """A step that takes its workers with it is not given to ever more of them."""
    if step.attempts <= spec.max_attempts:
        return
    lost = claims.lost_attempts(step)
    decision = decide(attempts=step.failures + lost, failures=step.failures, budget=_budget(spec))
    if lost and not decision.again:
        events.record(step.job, decision.code, step=step, payload={**decision.as_event(), "lost": lost})
        raise StepFailedError(f"{decision.code}: {lost} workers ended without a result")


@transaction.atomic
def _retry_or_fail(step: Step, error: str) -> None:
    """Within the budgets: again after a bounded exponential back-off. What comes of an attempt that is not
    the step's any more is told as late and changes nothing; of a step that has ended, as over too."""
    engine.locked_job(step.job_id)
    mine = engine.still_mine(step, late={"error": error})
    over = not mine and Step.objects.filter(pk=step.pk, status__in=STEP_ENDED).exists()
    failures = step.failures + 1
    decision = decide(
        attempts=failures + claims.lost_attempts(step),
        failures=failures,
        budget=_budget(StepSpec.of_step(step.spec)),
        over=over,
    )
    if mine or over:
        told = {**decision.as_event(), "error": error[:500]}
        events.record(step.job, decision.code, step=step, payload=told)
    if not mine:
        return
    if not decision.again:
        engine.mark_failed(step=step, error=f"{decision.code} after {failures}: {error}")
        return
    engine.mark_waiting(
        step=step,
        status=StepStatus.AWAITING_TOOL,
        reason=f"{decision.code}: {error}"[:500],
        waiting_for={"type": "backoff", "error": error[:500], "failures": failures},
        ready_in=decision.delay,
        failures=failures,
    )


def _budget(spec: StepSpec) -> Budget:
    return Budget(max_attempts=spec.max_attempts, max_failures=spec.max_failures)
