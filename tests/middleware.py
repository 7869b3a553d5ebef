"""Django's test clients share one stack of middleware, as the requests of a web process do.

Each would load one of its own with its first request, which costs what a small page costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.core.handlers.base import BaseHandler
from django.test.client import ClientHandler

_PARTS = ("_view_middleware", "_template_response_middleware", "_exception_middleware", "_middleware_chain")


@contextmanager
def loaded_once() -> Iterator[None]:
    """In this block, under the settings of now; under others each client loads its own. Loaded here, so that
    nothing of what a test patches is in it."""
    session: Any = settings
    base, first = session._wrapped, ClientHandler()
    BaseHandler.load_middleware(first)
    shared = {name: getattr(first, name) for name in _PARTS}

    def load(self: ClientHandler, is_async: bool = False) -> None:
        if is_async or session._wrapped is not base:
            BaseHandler.load_middleware(self, is_async)
        else:
            vars(self).update(shared)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ClientHandler, "load_middleware", load, raising=False)
        yield
