"""Work as it is counted rather than timed: for tests of what a stranger's body costs."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from tasks_app.adcp import extraction, strict_json, webhook_body


def counted(transform: Callable[[Any], Any], body: Any) -> tuple[int, int, Any]:
    """Lines of Python that ran, and bytes that were held at most, while it was made."""
    ran, made = 0, None

    def count(_frame: FrameType, event: str, _told: Any) -> Any:
        nonlocal ran
        ran += event == "line"
        return count

    before = sys.gettrace()
    tracemalloc.start()
    sys.settrace(count)
    try:
        with suppress(webhook_body.EnvelopeError, strict_json.MalformedBody, extraction.WrapperError):
            made = transform(body)
    finally:
        sys.settrace(before)
        room = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return ran, room, made
