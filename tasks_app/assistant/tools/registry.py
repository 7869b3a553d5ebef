"""The table of tools. Each storey registers its own when the application starts."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tasks_app.assistant.types import Mode, ToolSpec
from tasks_app.money import decimal_of
from tasks_app.people.models import User

A = TypeVar("A", bound="Arguments")


class Effect(StrEnum):
    """The effect of a tool."""

    READ = "read"
    PROPOSE = "propose"  # a stored proposal, which a person may confirm


class Arguments(BaseModel):
    """Base of every tool's arguments: unknown names are refused, text is limited."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, str_max_length=500, frozen=True)


def _exact(value: Any) -> Decimal:
    number = decimal_of(value)
    if number is None:
        raise ValueError("is no amount, such as 12500.50")
    return number


#: An amount of money among a tool's arguments.
Amount = Annotated[Decimal, BeforeValidator(_exact), Field(gt=0, le=Decimal(10) ** 13, allow_inf_nan=False)]


class NoArguments(Arguments):
    """Arguments of a tool that needs none."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link to an object's page. `kind` and `id` say which object it is; its visibility is checked."""

    kind: str
    id: uuid.UUID
    label: str
    url: str


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows for people. Every cell is text, formatted as on pages."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class ToolAnswer:
    """The answer of a tool.

    Attributes:
        summary: Sentences for a person. The built-in planner replies with them as they are.
        table: Details, shown below the reply.
        links: Objects that the answer is about. Their visibility is checked.
        data: Further facts for a model, as JSON.
        quoted: Text that sellers or briefs wrote, by name. Models get it marked as data.
    """

    summary: str
    table: Table | None = None
    links: Sequence[Link] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    quoted: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the answer as it is stored and sent to a model."""
        content: dict[str, Any] = {"summary": self.summary, **self.data}
        if self.table:
            content["table"] = {
                "columns": list(self.table.columns),
                "rows": [list(row) for row in self.table.rows],
            }
        if self.links:
            content["links"] = [
                {"kind": link.kind, "id": str(link.id), "label": link.label, "url": link.url}
                for link in self.links
            ]
        if self.quoted:
            content["quoted_untrusted_text"] = dict(self.quoted)
        return content


@dataclass(frozen=True, kw_only=True)
class Confirmed:
    """The result of a confirmed proposal.

    Attributes:
        approvals: Ids of the approvals that now wait for people.
        remaining: What `proceed` needs to ask for a second change, as JSON; None if there is none.
        created: Kind and id of the object that was created, if it is not the one that the proposal is about.
    """

    approvals: Sequence[uuid.UUID] = ()
    remaining: Mapping[str, Any] | None = None
    created: tuple[str, uuid.UUID] | None = None


class ToolRefusedError(Exception):
    """The tool cannot do what was asked. The text is a sentence for the user and the model."""


@dataclass(frozen=True, kw_only=True)
class Tool(Generic[A]):
    """One tool.

    Attributes:
        name: Lower case with underscores, as models call it.
        description: What it answers, for models.
        arguments: The schema that arguments are validated against.
        right: The permission that the user needs.
        run: Returns the answer for a user, in a read-only transaction. Raises ToolRefusedError.
        confirm: Only of a tool that proposes: asks for the change, as the assistant on behalf of the user, in
            the caller's transaction. Raises ToolRefusedError.
        proceed: Asks for the second change with what `confirm` left as `remaining`; returns no approvals
            while the first change is not shown. Raises ToolRefusedError.
        per_minute: How often one user may call it.
    """

    name: str
    description: str
    arguments: type[A]
    right: str
    run: Callable[[User, A], ToolAnswer]
    confirm: Callable[[User, A], Confirmed] | None = None
    proceed: Callable[[User, A, Mapping[str, Any]], Confirmed] | None = None
    per_minute: int = 60

    @property
    def effect(self) -> Effect:
        """Return whether the tool reads or proposes."""
        return Effect.PROPOSE if self.confirm else Effect.READ

    def spec(self) -> ToolSpec:
        """Return the tool as models see it."""
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        return ToolSpec(name=self.name, description=self.description, parameters=schema)


_tools: dict[str, Tool[Any]] = {}


def tool_register(tool: Tool[Any]) -> None:
    """Offer `tool`. Raise ValueError if another tool has its name."""
    if _tools.setdefault(tool.name, tool) is not tool:
        raise ValueError(f"the tool {tool.name} is registered already")


def tool_named(name: str) -> Tool[Any] | None:
    """Return the tool of that name."""
    return _tools.get(name)


def all_tools() -> list[Tool[Any]]:
    """Return every tool, by name."""
    return [_tools[name] for name in sorted(_tools)]


def tools_offered(user: User, mode: Mode) -> list[Tool[Any]]:
    """Return the tools that the user's rights and the mode allow."""
    if mode == Mode.LOCKDOWN:
        return []
    return [
        tool
        for tool in all_tools()
        if user.has_perm(tool.right) and (tool.effect == Effect.READ or mode == Mode.NORMAL)
    ]
