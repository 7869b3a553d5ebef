"""Telemetry of steps: `step_started` and `step_completed` in the log, and spans over OTLP.

Source: document 004, section 2.6.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import structlog
from django.conf import settings

from tasks_app.assistant.types import ModelResponse, ModelRole, OrchestratorStep, TaskState, ToolResult

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

log = structlog.get_logger(__name__)


class StepSpan:
    """The measurement of one step while it runs."""

    def __init__(self, *, trace_id: str, state: TaskState) -> None:
        self._trace_id, self._state = trace_id, state
        self.span_id = secrets.token_hex(8)
        self._began, self._began_ns = time.monotonic(), time.time_ns()
        self._role: ModelRole | None = None
        self._model, self._tokens = "", 0
        self._tools: Sequence[ToolResult] = ()
        log.info("step_started", step=state, trace_id=trace_id, span_id=self.span_id)

    def answered(self, role: ModelRole, response: ModelResponse) -> None:
        """Note which model answered, and what it cost."""
        self._role, self._model = role, response.model
        self._tokens += response.tokens_used

    def ran_tools(self, results: Sequence[ToolResult]) -> None:
        """Note the tools that ran."""
        self._tools = results

    def end(self, to: TaskState) -> OrchestratorStep:
        """Report the step as ended and return its record."""
        duration_ms = round((time.monotonic() - self._began) * 1000)
        step = OrchestratorStep(
            state=self._state,
            span_id=self.span_id,
            duration_ms=duration_ms,
            model_role=self._role,
            model=self._model,
            tokens_used=self._tokens,
            tools=self._tools,
        )
        log.info(
            "step_completed",
            step=self._state,
            to=to,
            trace_id=self._trace_id,
            span_id=self.span_id,
            model_role=self._role,
            duration_ms=duration_ms,
            tokens_used=self._tokens,
        )
        self._export(to)
        return step

    def _export(self, to: TaskState) -> None:
        provider = _provider()
        if provider is None:
            return
        attributes: dict[str, Any] = {"flightdeck.trace_id": self._trace_id, "flightdeck.to": str(to)}
        if self._role:
            attributes |= {
                "gen_ai.request.model": self._model,
                "gen_ai.usage.total_tokens": self._tokens,
                "flightdeck.model_role": str(self._role),
            }
        tracer = provider.get_tracer("flightdeck.assistant")
        turn = _turn_context(self._trace_id)
        span = tracer.start_span(str(self._state), turn, start_time=self._began_ns, attributes=attributes)
        span.end()


def _turn_context(trace_id: str) -> Context:
    """Return the context by which all spans of a turn form one trace. `trace_id` has 32 hex digits."""
    from opentelemetry import trace

    parent = trace.SpanContext(
        trace_id=int(trace_id, 16),
        span_id=int(trace_id[:16], 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED),
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(parent))


@cache
def _provider() -> TracerProvider | None:
    """Return where spans go; None without FLIGHTDECK_OTLP_ENDPOINT. Exports in a thread of its own."""
    if not settings.OTLP_ENDPOINT:
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=Resource.create({"service.name": "flightdeck-assistant"}))
    exporter = OTLPSpanExporter(endpoint=f"{settings.OTLP_ENDPOINT}/v1/traces")
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
