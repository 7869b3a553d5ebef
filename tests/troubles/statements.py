"""Statements of the source that may write several rows, so that one of them may stop the others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_MANY = {"bulk_create", "bulk_update", "executemany"}
_MOVED = {"transition_many", "create_many"}
# One row each; in a loop they are several.
_ONE_EACH = {"transition", "create", "note", "save", "get_or_create", "update_or_create"}
_KEYS = {"pk", "id"}
# A function of the database's own may write too, whatever its name.
_SQL = re.compile(
    r"\b(update \{|update \w+_\w+\b.*\bset\b|delete from|insert into|(?:select|from)\b.*\bfd_)", re.DOTALL
)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def over_several(node: ast.AST) -> list[str]:
    """The statements of a function that may write several rows: by the ORM, by the lifecycle or in SQL; those
    of one row where they are in a loop."""
    looped = {id(one) for one in called_in_turn(node)}
    calls = (one for one in ast.walk(node) if isinstance(one, ast.Call))
    several = (one for one in calls if _is_bulk(one) or (id(one) in looped and _is_write(one)))
    return [*(ast.unparse(one) for one in several), *_sql(node)]


def called_in_turn(node: ast.AST) -> Iterator[ast.Call]:
    """The calls that are made in each turn of a loop."""
    loops = (loop for loop in ast.walk(node) if isinstance(loop, _LOOPS))
    yield from (one for loop in loops for one in _repeated(loop) if isinstance(one, ast.Call))


def writes(node: ast.AST) -> bool:
    """Whether a function has a statement of its own that writes, be it one row."""
    calls = (one for one in ast.walk(node) if isinstance(one, ast.Call))
    return any(_is_bulk(one) or _is_write(one) for one in calls) or any(_sql(node))


def _repeated(loop: ast.AST) -> Iterator[ast.AST]:
    """What is done in each turn: not what is gone through, which is asked for once."""
    once = {id(part) for part in _gone_through(loop) for part in ast.walk(part)}
    yield from (part for part in ast.walk(loop) if id(part) not in once)


def _gone_through(loop: ast.AST) -> list[ast.AST]:
    if isinstance(loop, ast.For | ast.AsyncFor):
        return [loop.iter, *loop.orelse]
    if isinstance(loop, ast.While):
        return [*loop.orelse]
    return [loop.generators[0].iter]  # type: ignore[attr-defined]


def name_of(call: ast.Call) -> str:
    """The last part of the name of what is called."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _is_bulk(call: ast.Call) -> bool:
    verb = name_of(call)
    if verb in _MANY | _MOVED:
        return True
    return _is_of_rows(call) and not _is_one(call.func.value)  # type: ignore[attr-defined]


def _is_of_rows(call: ast.Call) -> bool:
    """`update` and `delete`: of a dictionary, a counter or a cache the one has arguments, the other too."""
    if not isinstance(call.func, ast.Attribute) or call.args:
        return False
    return call.func.attr == "delete" or (call.func.attr == "update" and bool(call.keywords))


def _is_write(call: ast.Call) -> bool:
    return name_of(call) in _ONE_EACH or _is_of_rows(call)


def _is_one(rows: ast.expr) -> bool:
    """Chosen by a key, in the same words: by the query itself, not by one that it is given."""
    while isinstance(rows, ast.Call | ast.Attribute):
        if isinstance(rows, ast.Attribute):
            rows = rows.value
            continue
        if name_of(rows) in {"filter", "get"} and any(one.arg in _KEYS for one in rows.keywords):
            return True
        rows = rows.func
    return False


def _sql(node: ast.AST) -> Iterator[str]:
    texts = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
    documented = {
        ast.get_docstring(one, clean=False)
        for one in ast.walk(node)
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    yield from (
        text for text in texts if isinstance(text, str) and text not in documented and _SQL.search(text)
    )
