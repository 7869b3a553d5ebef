"""Whether an operation that is due may leave: reads always, what changes something only past the gates.

The kill switch stops what was not sent yet; what was sent before asks every gate, each time.
"""

from __future__ import annotations

from tasks_app import clock
from tasks_app.commands.gates import SELLER
from tasks_app.commands.kill_switch import Stops
from tasks_app.commands.questions import GateUnaskedError
from tasks_app.commands.services import command_pass
from tasks_app.operations import policy
from tasks_app.operations.models import Operation
from tasks_app.operations.ordering import order_command


def may_leave(operation: Operation, stops: Stops, *, repeated: bool) -> bool:
    """Whether this attempt passes; else it is taken off the way, and people are asked. In the transaction
    that holds the operation."""
    if not operation.is_mutation or not (repeated or stops.why(operation.team_id)):
        return True
    try:
        passed = command_pass(command_id=order_command(operation).pk, repeated=repeated)
    except GateUnaskedError:  # nobody's: tried again later
        later = clock.now() + policy.resend_delay(6, None, operation.seller)
        Operation.objects.filter(pk=operation.pk).update(send_at=later)
        return False
    if passed is False:
        Operation.objects.filter(pk=operation.pk).update(send_at=None)
    return bool(passed)


def passes_though_off(operation: Operation) -> bool:
    """Whether a person let an order pass although its seller is off."""
    return operation.is_mutation and SELLER in order_command(operation).overrides
