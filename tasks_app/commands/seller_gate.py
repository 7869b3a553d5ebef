"""The gate of a suspended seller: nothing is repeated there unless a person says so."""

from __future__ import annotations

from collections.abc import Sequence

from tasks_app.commands.gates import SELLER, Gate, gate_register
from tasks_app.commands.models import Command
from tasks_app.desk.explain import Mover
from tasks_app.sellers.explain import on_movers


def register() -> None:
    """Called when the application starts."""
    gate_register(Gate(name=SELLER, label="Seller suspended", why_closed=_why_closed, opens=_opens))


def _why_closed(command: Command) -> str:
    if command.seller is None or command.seller.active:
        return ""
    return f"{command.seller.name} is switched off"


def _opens(command: Command) -> Sequence[Mover]:
    return on_movers(command.seller) if command.seller else ()
