"""The gate of a suspended seller: nothing is repeated there unless a person says so."""

from __future__ import annotations

from tasks_app.commands.gates import SELLER, Gate, gate_register
from tasks_app.commands.models import Command


def register() -> None:
    """Called when the application starts."""
    gate_register(Gate(name=SELLER, label="Seller suspended", why_closed=_why_closed))


def _why_closed(command: Command) -> str:
    if command.seller is None or command.seller.active:
        return ""
    return f"{command.seller.name} is switched off"
