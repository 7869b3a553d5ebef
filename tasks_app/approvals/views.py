"""The page behind a mailed link."""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.admin.views.decorators import staff_member_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from tasks_app.approvals.links import LinkRefusedError, link_open
from tasks_app.people.models import User


@never_cache
@require_GET
@staff_member_required
def approval_link(request: HttpRequest, token: str) -> HttpResponse:
    """To the approval's page, once; else to the queue, with the reason. Neither decides anything."""
    try:
        approval_id = link_open(token=token, user=cast(User, request.user))
    except LinkRefusedError as refused:
        messages.warning(request, f"{refused} Everything that waits for you is here.")
        return redirect("admin:tasks_app_approval_changelist")
    return redirect("admin:tasks_app_approval_change", approval_id)
