"""Reads at a seller: no command, for they change nothing there (document 003, "Read paths")."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from tasks_app.commands.boundary import read_allowed
from tasks_app.lifecycle.transitions import Who
from tasks_app.operations.asking import operation_ensure
from tasks_app.operations.models import READS, Operation
from tasks_app.operations.services import Subject
from tasks_app.people.models import Team
from tasks_app.sellers.models import Account, Seller


def read_ensure(
    *,
    purpose: str,
    task_type: str,
    seller: Seller,
    arguments: Mapping[str, Any],
    actor: Who,
    team: Team | None,
    account: Account | None = None,
    subject: Subject | None = None,
    advertiser_id: uuid.UUID | None = None,
) -> Operation:
    """The read of `purpose`, made on first use and due at once. Raises OperationRefusedError (the seller is
    off, or has no such tool), EffectRefusedError (a pure action asks nobody), ValueError for a task that is
    no read."""
    if task_type not in READS:
        raise ValueError(f"{task_type} changes something at the seller: it is a command (ordering)")
    read_allowed()
    return operation_ensure(
        purpose=purpose,
        task_type=task_type,
        seller=seller,
        arguments=arguments,
        actor=actor,
        team=team,
        account=account,
        subject=subject,
        advertiser_id=advertiser_id,
    )
