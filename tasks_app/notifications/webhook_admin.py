"""Teams' webhooks in the admin: set, switched off, tested. The URL is entered and never shown again."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from tasks_app.desk.drawn import DRAWN, drawn_of
from tasks_app.desk.page import Page, viewer
from tasks_app.notifications.models import Notification, TeamWebhook
from tasks_app.notifications.team_webhook import (
    ADMINISTERS,
    NotPostedError,
    TeamWebhookRefusedError,
    team_webhook_set,
    team_webhook_test,
)
from tasks_app.people.actors import actor_names
from tasks_app.people.models import Team
from tasks_app.people.scope import teams_of


@admin.register(TeamWebhook)
class TeamWebhookAdmin(Page):
    """For whoever administers teams; of their own teams."""

    list_template_name = "desk/team_webhooks.html"

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return viewer(request).has_perm(ADMINISTERS)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def list_data(self, request: HttpRequest) -> dict[str, Any]:
        hooks = list(self.get_queryset(request).select_related("team").defer("url"))
        names = actor_names({hook.changed_by for hook in hooks})
        wanted = _uuid(request.GET.get("team", ""))
        have = {hook.team_id: hook for hook in hooks}
        return {
            # Whose form this is: one that is there is changed from what it is, in a form of its own.
            "chosen": have.get(wanted) if wanted else None,
            "title": "Team webhooks",
            "drawn": _drawn(hooks),
            "rows": [{"hook": hook, "by": names[hook.changed_by], **_face(hook)} for hook in hooks],
            "teams": list(teams_of(viewer(request)).exclude(pk__in=have)),
            "levels": Notification.Level.choices,
        }

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if request.method != "POST" or not self.has_view_permission(request):
            return super().changelist_view(request, extra_context)
        try:
            messages.success(request, self._done(request))
        except (TeamWebhookRefusedError, NotPostedError) as refused:
            messages.error(request, str(refused))
        return HttpResponseRedirect(request.get_full_path())

    def change_view(self, request: HttpRequest, *_: Any, **__: Any) -> HttpResponse:
        """A webhook has no page but the list."""
        return HttpResponseRedirect(reverse("admin:tasks_app_teamwebhook_changelist"))

    def _done(self, request: HttpRequest) -> str:
        """Sets one, or posts a test to one; in words. Raises TeamWebhookRefusedError, NotPostedError."""
        said = request.POST
        tested = _uuid(said.get("test", ""))
        if tested is not None:
            return self._tested(request, tested)
        user = viewer(request)
        wanted = _uuid(said.get("team", ""))
        team: Team | None = teams_of(user).filter(pk=wanted).first() if wanted else None
        if team is None:
            raise TeamWebhookRefusedError("Choose one of your teams.")
        with transaction.atomic():
            held = self.get_queryset(request).select_for_update(no_key=True, of=("self",))
            if said.get(DRAWN, "") != _drawn(list(held)):
                raise TeamWebhookRefusedError(
                    "Nothing was kept: somebody has changed a webhook since this page was opened."
                )
            team_webhook_set(
                user=user,
                team=team,
                url=said.get("url", ""),
                level=said.get("level", ""),
                active="active" in said,
                allow_private="allow_private" in said,
            )
        return f"{team}: kept. Send a test to see that it arrives."

    def _tested(self, request: HttpRequest, hook_id: UUID) -> str:
        hook = self.get_queryset(request).select_related("team").filter(pk=hook_id).first()
        if hook is None:
            raise TeamWebhookRefusedError("There is no such webhook.")
        try:
            team_webhook_test(hook=hook)
        except NotPostedError as error:
            raise NotPostedError(f"{hook.team}: not taken, {error}.") from None
        return f"{hook.team}: {hook.host} took the test."


def _drawn(hooks: list[TeamWebhook]) -> str:
    """What the form is drawn from: who has which, and since when."""
    return drawn_of({str(hook.pk): hook.changed_at.isoformat() for hook in hooks})


def _face(hook: TeamWebhook) -> dict[str, str]:
    if not hook.active:
        return {"glyph": "stopped", "word": "off"}
    if hook.failed_at is not None:
        return {"glyph": "failed", "word": "not taken"}
    return (
        {"glyph": "done", "word": "works"} if hook.sent_at else {"glyph": "waiting", "word": "not used yet"}
    )


def _uuid(given: str) -> UUID | None:
    try:
        return UUID(given)
    except ValueError:
        return None
