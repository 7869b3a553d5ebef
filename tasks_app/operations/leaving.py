"""Whether an operation that is due may leave: reads always, what changes something only past the gates, and
past whatever the storey above looks at last.

What people approved is compared with what is about to be sent; the kill switch stops what was not sent yet;
what was sent before asks every gate, each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tasks_app.commands.gates import SELLER
from tasks_app.commands.kill_switch import Stops
from tasks_app.commands.services import command_let_pass, command_pass
from tasks_app.operations.models import Operation
from tasks_app.operations.ordering import order_command, order_known
from tasks_app.operations.pauses import answer_key, answer_waiting, continuation_current
from tasks_app.operations.services import not_sent_again


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """What is about to leave: the operation's own request, or an answer to the seller's question."""

    operation: Operation
    request: Mapping[str, Any]
    is_answer: bool = False


# Looks once more at what is about to leave; where it may not as it is, takes it off the way and asks people.
LastLook = Callable[[Leaving], bool]
_looks: list[LastLook] = []
_waits: list[LastLook] = []


def last_look_register(look: LastLook, *, waits: bool = False) -> None:
    """Have `look(leaving)` asked before each attempt of whatever changes something, however it came to
    leave, answers to sellers too; in the transaction that holds the operation. `waits`: it has it wait for
    something, so that it is asked only of what nothing else speaks against."""
    looks = _waits if waits else _looks
    if look not in looks:
        looks.append(look)


def is_still_wanted(operation: Operation, *, answers: bool = False) -> bool:
    """Whether nothing speaks against sending the operation as it is, or the answer (`answers`) that waits, at
    this moment."""
    if not operation.is_mutation:
        return True
    request = answer_waiting(operation) if answers else operation.request
    leaving = Leaving(operation=operation, request=request, is_answer=answers)
    return all(look(leaving) for look in (*_looks, *_waits))


# Whether an order is what people approved; where it is not, they have been asked again and it is held.
AsApproved = Callable[[Operation], bool]
_approved: list[AsApproved] = []


def approved_register(is_as_approved: AsApproved) -> None:
    """Let the storey that asks people say, at the last moment before each attempt of an order, whether it
    still is what they approved. It is called in the transaction that holds the operation, waits for nobody,
    and holds the order itself where it is not."""
    if is_as_approved not in _approved:
        _approved.append(is_as_approved)


def may_leave(operation: Operation, stops: Stops, *, repeated: bool, answers: bool = False) -> bool:
    """Whether this attempt passes; else it is taken off the way, and people are asked. In the transaction
    that holds the operation. `answers`: it is an answer to the seller's question, which may be given although
    people refused to have the operation itself sent again; what they let pass of it passes here too."""
    if not operation.is_mutation:
        return True
    command = order_known(operation)
    if command is not None and command.refused_at is not None and not answers:
        not_sent_again(operation, command.refused_why)
        return False
    if not answers and not all(is_as_approved(operation) for is_as_approved in _approved):
        return False
    held = command is not None and (command.overrides or command.waiting_since)
    if not (repeated or held or stops.why(operation.team_id)):
        return True
    if answers and (said := _answer_let_pass(operation)) is not False:
        return bool(said)
    passed = command_pass(command_id=order_command(operation).pk, repeated=repeated)
    if passed is False:
        Operation.objects.filter(pk=operation.pk).update(send_at=None)
    return bool(passed)


def _answer_let_pass(operation: Operation) -> bool | None:
    """Whether people let the answer that waits past the gates, as a command of its own; None: somebody is
    deciding about that at this moment."""
    current = continuation_current(operation)
    return command_let_pass(key=answer_key(current), repeated=False) if current is not None else False


def passes_though_off(operation: Operation) -> bool:
    """Whether a person let an order pass although its seller is off."""
    return operation.is_mutation and SELLER in order_command(operation).overrides
