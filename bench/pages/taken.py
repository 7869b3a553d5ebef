"""What each answer took at the server, in its head: milliseconds, and queries of all its threads."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from django.db.backends.signals import connection_created
from django.http import HttpRequest, HttpResponse
from django.utils.decorators import async_only_middleware

MILLISECONDS, QUERIES = "X-Taken-Ms", "X-Taken-Queries"
_queries: ContextVar[list[str] | None] = ContextVar("queries", default=None)


def _noted(execute: Callable[..., Any], query: str, params: Any, many: bool, context: Any) -> Any:
    asked = _queries.get()
    if asked is not None:
        asked.append(query)
    return execute(query, params, many, context)


def _watched(*, connection: Any, **_: Any) -> None:
    if _noted not in connection.execute_wrappers:
        connection.execute_wrappers.append(_noted)


connection_created.connect(_watched)


@async_only_middleware
def taken(
    get_response: Callable[[HttpRequest], Awaitable[HttpResponse]],
) -> Callable[[HttpRequest], Awaitable[HttpResponse]]:
    """Outermost of all: from the request as Django has it to the whole answer."""

    async def measured(request: HttpRequest) -> HttpResponse:
        asked: list[str] = []
        _queries.set(asked)
        began = time.perf_counter()
        response = await get_response(request)
        response[MILLISECONDS] = f"{1000 * (time.perf_counter() - began):.2f}"
        response[QUERIES] = str(len(asked))
        return response

    return measured
