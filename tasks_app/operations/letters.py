"""What people write to a seller about an operation: a text to copy, and an address that opens their mail.

References and what the seller itself said, never a token, key or capability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from tasks_app.desk import text
from tasks_app.operations.conflict import Conflict
from tasks_app.operations.differences import Field
from tasks_app.operations.models import Operation

_MOST_LINES = 20
_MOST_LINK = 1800  # what mail programs take in an address


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A subject, a body, and a mailto: address; empty where nobody's address is known."""

    subject: str
    body: str
    link: str


def about_question(operation: Operation) -> Letter:
    """Asking a seller how its question can be answered."""
    asked = f"You asked: {operation.message}" if operation.message else "You asked for input."
    lines = [
        *_reference(operation),
        "",
        asked,
        "",
        "Our system has no way to answer it over the protocol. Our answer is:",
        "",
    ]
    return _letter(operation, f"Your question about {_name(operation)}", lines)


def about_silence(operation: Operation) -> Letter:
    """Asking a seller what became of it."""
    since = operation.sent_at or operation.created_at
    lines = [
        *_reference(operation),
        "",
        f"We sent it {text.moment_kept(since)} and do not know its outcome.",
        "Please tell us whether it was carried out, and under which media buy id.",
    ]
    return _letter(operation, f"What became of {_name(operation)}?", lines)


def about_conflict(conflict: Conflict, fields: Sequence[Field]) -> Letter:
    """Asking a seller which of two things holds."""
    operation = conflict.operation
    differing = [field for field in fields if field.differs][:_MOST_LINES]
    lines = [
        *_reference(operation),
        "",
        "You told us two different things about it. First, and later:",
        "",
        *(f"{field.path}: {field.first} / {field.second}" for field in differing),
        "",
        "Please tell us which of them holds.",
        f"Our reference: {conflict.reference}",
    ]
    return _letter(operation, f"Two different answers about {_name(operation)}", lines)


def _reference(operation: Operation) -> list[str]:
    named = [f"Task: {operation.task_type}", f"Our operation: {operation.reference} ({operation.pk})"]
    return [*named, f"Your task: {operation.task_id}"] if operation.task_id else named


def _name(operation: Operation) -> str:
    return f"{operation.task_type} {operation.reference}"


def _letter(operation: Operation, subject: str, lines: Sequence[str]) -> Letter:
    body = "\n".join(lines)
    address = operation.seller.contact_email
    link = f"mailto:{quote(address, safe='@')}?subject={quote(subject)}&body={quote(body[: _MOST_LINK // 3])}"
    return Letter(subject=subject, body=body, link=link if address else "")
