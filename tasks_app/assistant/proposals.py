"""Proposals: confirmed by the person who asked, they become ordinary changes that other people approve."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import transaction

from tasks_app import clock
from tasks_app.assistant.errors import AssistantRefusedError, NotPermittedError
from tasks_app.assistant.governance import current_mode
from tasks_app.assistant.models import AssistantProposal
from tasks_app.assistant.tools.registry import Confirmed, Tool, ToolRefusedError, tool_named
from tasks_app.assistant.types import Mode
from tasks_app.notifications.services import About, notify
from tasks_app.people.models import User
from tasks_app.troubles.rows import each_row
from tasks_app.troubles.works import work_on

_AT_ONCE = 200
_WORK = work_on("assistant_proposals_continued", "assistant_proposal")


@transaction.atomic
def confirm_proposal(*, user: User, proposal_id: uuid.UUID) -> AssistantProposal:
    """Ask for the proposed change, as the assistant on behalf of the user; return the proposal.

    Raises:
        NotPermittedError: The user has no right to the change any more.
        AssistantRefusedError: There is no such proposal, it is decided, or the change is not possible now.
    """
    proposal = _open_proposal(user, proposal_id)
    if current_mode(proposal.turn.session_id) != Mode.NORMAL:
        raise AssistantRefusedError("The assistant may not propose anything at the moment.")
    try:
        confirmed = _confirm_if_unchanged(proposal, user)
    except ToolRefusedError as error:
        raise AssistantRefusedError(str(error)) from None
    proposal.approvals = [str(pk) for pk in confirmed.approvals]
    proposal.remaining = dict(confirmed.remaining) if confirmed.remaining else None
    if confirmed.created:
        proposal.subject_type, proposal.subject_id = confirmed.created
    proposal.confirmed_at = clock.now()
    proposal.save(update_fields=["approvals", "remaining", "subject_type", "subject_id", "confirmed_at"])
    return proposal


@transaction.atomic
def dismiss_proposal(*, user: User, proposal_id: uuid.UUID) -> AssistantProposal:
    """Dismiss a proposal that was not confirmed. Raise AssistantRefusedError."""
    proposal = _open_proposal(user, proposal_id)
    proposal.dismissed_at = clock.now()
    proposal.save(update_fields=["dismissed_at"])
    return proposal


def continue_proposals() -> int:
    """Ask for second changes whose first one is shown; return how many were handled. A chore of the sweep."""
    waiting = AssistantProposal.objects.filter(remaining__isnull=False).order_by("id")
    ids = list(waiting.values_list("pk", flat=True)[:_AT_ONCE])
    return each_row(_WORK, ids, _continue)


def _continue(proposal_id: uuid.UUID) -> int:
    rows = AssistantProposal.objects.select_for_update(skip_locked=True, of=("self",), no_key=True)
    proposal = rows.select_related("turn__session__user").filter(pk=proposal_id).first()
    if proposal is None or not proposal.remaining:
        return 0
    user = proposal.turn.session.user
    try:
        confirmed = _ask_second(proposal, user)
    except (ToolRefusedError, NotPermittedError) as error:
        return _give_up(proposal, user, str(error))
    if not confirmed.approvals:
        return 0  # the first change is not shown yet
    proposal.approvals = [*proposal.approvals, *(str(pk) for pk in confirmed.approvals)]
    proposal.remaining = None
    proposal.save(update_fields=["approvals", "remaining"])
    return 1


def _give_up(proposal: AssistantProposal, user: User, why: str) -> int:
    proposal.remaining, proposal.error = None, why
    proposal.save(update_fields=["remaining", "error"])
    notify(
        kind="assistant",
        title="The second half of a proposed change was not asked for",
        body=f"{proposal.summary}\n{why}",
        person=user,
        about=About(type=proposal.subject_type, id=proposal.subject_id) if proposal.subject_id else None,
    )
    return 1


def _open_proposal(user: User, proposal_id: uuid.UUID) -> AssistantProposal:
    rows = AssistantProposal.objects.select_for_update(of=("self",), no_key=True).select_related(
        "turn", "call"
    )
    proposal = rows.filter(pk=proposal_id, turn__session__user=user).first()
    if proposal is None:
        raise AssistantRefusedError("There is no such proposal of yours.")
    if proposal.confirmed_at or proposal.dismissed_at:
        raise AssistantRefusedError("This proposal is decided already.")
    return proposal


def _confirm_if_unchanged(proposal: AssistantProposal, user: User) -> Confirmed:
    """Ask for the change if the tool still proposes what the person was shown. Raise ToolRefusedError."""
    tool = _tool(proposal, user)
    if tool.confirm is None:
        raise ToolRefusedError("This change is not offered any more.")
    arguments = tool.arguments.model_validate(proposal.arguments)
    shown, now = proposal.call.result or {}, tool.run(user, arguments).as_json()
    if any(shown.get(part) != now.get(part) for part in ("summary", "table")):
        raise ToolRefusedError("This has changed since it was proposed: ask again.")
    return tool.confirm(user, arguments)


def _ask_second(proposal: AssistantProposal, user: User) -> Confirmed:
    tool = _tool(proposal, user)
    if tool.proceed is None:
        raise ToolRefusedError("This change is not offered any more.")
    return tool.proceed(user, tool.arguments.model_validate(proposal.arguments), proposal.remaining or {})


def _tool(proposal: AssistantProposal, user: User) -> Tool[Any]:
    """Return the tool of a proposal. Raise ToolRefusedError if it is gone, and NotPermittedError."""
    tool = tool_named(proposal.tool)
    if tool is None:
        raise ToolRefusedError("This change is not offered any more.")
    if not user.is_active or not user.has_perm(tool.right):
        raise NotPermittedError("You have no right to ask for this change.")
    return tool
