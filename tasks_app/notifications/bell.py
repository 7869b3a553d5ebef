"""The bell: how many notifications a person has not read. While a page is open it asks again every so often
and is exchanged alone, so that a count grows without a reload."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from tasks_app.notifications.selectors import unread_count
from tasks_app.people.models import User

EVERY_S = 15
_MOST = 99


def bell_html(user: User) -> SafeString:
    """The bell with its count, which leads to the list, and asks for itself while the page is seen."""
    count = unread_count(user)
    said = f"{_MOST}+ unread" if count > _MOST else f"{count} unread" if count else "None unread"
    return format_html(
        '<a id="bell" class="bell{}" href="{}" aria-label="Notifications: {}" hx-get="{}?shown={}"'
        ' hx-trigger="every {}s [document.visibilityState === \'visible\']" hx-swap="outerHTML">'
        '<span class="material-symbols-outlined" aria-hidden="true">notifications</span><span>{}</span></a>',
        " some" if count else "",
        reverse("admin:tasks_app_notification_changelist"),
        said.lower(),
        reverse("bell"),
        min(count, _MOST + 1),
        EVERY_S,
        said,
    )


@never_cache
@require_GET
def bell_view(request: HttpRequest) -> HttpResponse:
    """The bell anew, or 204: nothing has changed, or nobody is signed in any more (the next page says so, not
    the bell)."""
    user = request.user
    if not isinstance(user, User) or not user.is_active or not user.is_staff:
        return HttpResponse(status=204)
    if request.GET.get("shown") == str(min(unread_count(user), _MOST + 1)):
        return HttpResponse(status=204)
    return HttpResponse(bell_html(user))
