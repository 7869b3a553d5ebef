"""A refusal the buyer can read: AdCP's error with its code, raised anywhere in a task.

Source: AdCP `core/error.json`, `enums/error-code.json`; the `adcp` package puts it on either transport.
"""

from __future__ import annotations

from datetime import datetime

from adcp.decisioning import AdcpError

from demo.sellers import clock


def refuse(code: str, message: str, *, field: str | None = None, suggestion: str | None = None) -> AdcpError:
    """A refusal that the buyer can mend by changing the request."""
    return AdcpError(code, message=message, recovery="correctable", field=field, suggestion=suggestion)


def time_given(text: str, field: str) -> datetime:
    """A time of the request.

    Raises:
        AdcpError: INVALID_REQUEST, when it is none.
    """
    try:
        return clock.parse(text)
    except ValueError:
        raise refuse("INVALID_REQUEST", "Not a time in ISO 8601.", field=field) from None
