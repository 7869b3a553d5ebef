"""Tools as a user calls them, and what their answers hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from django.db import connection, transaction
from pytest_django.plugin import DjangoDbBlocker

from tasks_app.assistant.tools.registry import ToolAnswer, tool_named
from tasks_app.people.models import User


@contextmanager
def shared_rows(blocker: DjangoDbBlocker) -> Iterator[None]:
    """Keep what is written within for the tests of one module, then roll it back."""
    with blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


def read(name: str, user: User, **arguments: Any) -> ToolAnswer:
    """Run a tool as the assistant does: arguments validated, in a read-only transaction."""
    tool = tool_named(name)
    assert tool is not None
    assert user.has_perm(tool.right)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("set transaction read only")
        return tool.run(user, tool.arguments.model_validate(arguments))


def rows_of(answer: ToolAnswer) -> list[dict[str, str]]:
    """Return the rows of the table by the titles of the columns."""
    assert answer.table is not None
    return [dict(zip(answer.table.columns, row, strict=True)) for row in answer.table.rows]


def usd(amount: Any) -> str:
    """Return an amount as summaries and cells have it."""
    value = Decimal(amount)
    return f"USD {value:,.0f}" if value == value.to_integral() else f"USD {value:,.2f}"


def as_text(answer: ToolAnswer) -> str:
    """Return everything that the answer holds."""
    return json.dumps(answer.as_json(), ensure_ascii=False)


def outside_quotes(answer: ToolAnswer) -> str:
    """Return what a model reads as our own words: all but `quoted`, cells, and names in double quotes."""
    content = answer.as_json()
    content.pop("quoted_untrusted_text", None)
    content.pop("table", None)
    content["summary"] = "".join(content["summary"].split('"')[::2])
    return json.dumps(content, ensure_ascii=False)
