"""The panel on every page of the admin, as fragments that htmx loads. Each belongs to its user alone."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from django.contrib.admin.views.decorators import staff_member_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.html import escape
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from tasks_app.assistant.errors import AssistantRefusedError
from tasks_app.assistant.governance import current_mode
from tasks_app.assistant.models import AssistantProposal, AssistantSession
from tasks_app.assistant.proposals import confirm_proposal, dismiss_proposal
from tasks_app.assistant.selectors import own_sessions, own_turns, session_turns, turn_data
from tasks_app.assistant.services import ask, stop
from tasks_app.assistant.types import TERMINAL, Channel
from tasks_app.desk.page import viewer
from tasks_app.people.models import User
from tasks_app.people.roles import USE_ASSISTANT

_NEW = "new"
_MOST_PAST = 15
_BESIDE_QUESTION = {"HX-Retarget": "#assistant-refusal", "HX-Reswap": "innerHTML"}
_DECISIONS = {"confirm": confirm_proposal, "dismiss": dismiss_proposal}
View = Callable[..., HttpResponse]


def _for_users(view: View) -> View:
    """Let in people with the right to use the assistant. A refusal becomes a sentence beside the question."""

    @wraps(view)
    def checked(request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if not viewer(request).has_perm(USE_ASSISTANT):
            raise PermissionDenied
        try:
            return view(request, **kwargs)
        except AssistantRefusedError as error:
            return HttpResponse(escape(error), headers=_BESIDE_QUESTION)

    return never_cache(staff_member_required(checked))


@require_GET
@_for_users
def conversation(request: HttpRequest) -> HttpResponse:
    """Return the conversation that `session` names; the last active one of the panel without it.

    `session=new` returns an empty conversation. Its first question stores it.
    """
    user = viewer(request)
    session = _chosen(user, request.GET.get("session", ""))
    mode = current_mode(session.pk if session else None)
    past = own_sessions(user).exclude(title="")[:_MOST_PAST]
    return TemplateResponse(
        request,
        "assistant/conversation.html",
        {
            "session": session,
            "turns": [_for_page(turn) for turn in session_turns(session, mode)] if session else [],
            "past": [one for one in past if one != session],
            "mode": mode,
        },
    )


@require_POST
@_for_users
def question(request: HttpRequest) -> HttpResponse:
    """Ask what was typed, about the page's object; return the new turn."""
    data = request.POST
    kind, pk = data.get("kind", "")[:60], _id_of(data.get("object", ""))
    turn = ask(
        user=viewer(request),
        question=data.get("question", ""),
        channel=Channel.PAGE,
        session_id=_id_of(data.get("session", "")),
        opened=(kind, pk) if kind and pk else None,
    )
    return _turn_page(request, turn.pk, session=turn.session_id)


@require_GET
@_for_users
def turn_fragment(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponse:
    """Return a turn as it is now."""
    return _turn_page(request, get_object_or_404(own_turns(viewer(request)), pk=turn_id).pk)


@require_POST
@_for_users
def stop_turn(request: HttpRequest, turn_id: uuid.UUID) -> HttpResponse:
    """Stop a turn; return it."""
    turn = get_object_or_404(own_turns(viewer(request)), pk=turn_id)
    stop(user=viewer(request), turn_id=turn.pk)
    return _turn_page(request, turn.pk)


@require_POST
@_for_users
def decide_proposal(request: HttpRequest, proposal_id: uuid.UUID) -> HttpResponse:
    """Confirm or dismiss a proposal (`act`); return its turn."""
    proposals = AssistantProposal.objects.filter(turn__session__user=viewer(request))
    proposal = get_object_or_404(proposals, pk=proposal_id)
    decide = _DECISIONS.get(request.POST.get("act", ""))
    if decide is None:
        raise AssistantRefusedError("Confirm the proposal, or dismiss it.")
    decide(user=viewer(request), proposal_id=proposal.pk)
    return _turn_page(request, proposal.turn_id)


def _turn_page(request: HttpRequest, turn_id: uuid.UUID, **more: Any) -> HttpResponse:
    return TemplateResponse(request, "assistant/turn.html", {"turn": _for_page(turn_data(turn_id)), **more})


def _for_page(turn: dict[str, Any]) -> dict[str, Any]:
    """Return a turn's data with what only pages need: whether it runs, and the tools that it ran."""
    tools = [{**step, "arguments": _listed(step["arguments"])} for step in turn["steps"] if step["tool"]]
    return {**turn, "is_running": turn["status"] not in TERMINAL, "tools": tools}


def _listed(arguments: Mapping[str, Any]) -> str:
    """Return the arguments of a tool as text: "deal: DEAL-2026-17; paused: True"."""
    texts = {
        name: ", ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in arguments.items()
    }
    return "; ".join(f"{name}: {value}" for name, value in texts.items())


def _chosen(user: User, wanted: str) -> AssistantSession | None:
    """Return the session that was asked for. Raise Http404 if the user has no such session."""
    if wanted == _NEW:
        return None
    if not wanted:
        return own_sessions(user).filter(channel=Channel.PAGE, archived_at__isnull=True).first()
    return get_object_or_404(own_sessions(user), pk=_id_of(wanted))


def _id_of(text: str) -> uuid.UUID | None:
    """Return an id, or None for nothing. Raise Http404 for anything else."""
    try:
        return uuid.UUID(text) if text else None
    except ValueError:
        raise Http404 from None


panel_urls = [
    path("", conversation, name="assistant_conversation"),
    path("ask/", question, name="assistant_ask"),
    path("turns/<uuid:turn_id>/", turn_fragment, name="assistant_turn"),
    path("turns/<uuid:turn_id>/stop/", stop_turn, name="assistant_stop"),
    path("proposals/<uuid:proposal_id>/", decide_proposal, name="assistant_proposal"),
]
