"""django-unfold's settings: names, colours and the rail."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy

# (title, icon, model of the page) by group; a page is listed for whoever may see its model.
_RAIL: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Buying",
        (
            ("Campaigns", "campaign", "campaigns.campaign"),
            ("Deals", "handshake", "orders.deal"),
            ("Sellers", "storefront", "tasks_app.seller"),
            ("Accounts", "badge", "tasks_app.account"),
        ),
    ),
    (
        "Operations",
        (
            ("Monitor", "monitor_heart", "tasks_app.operation"),
            ("Conflicts", "compare_arrows", "tasks_app.conflict"),
            ("Reconciliation", "difference", "tasks_app.reconciliationfinding"),
            ("Jobs", "account_tree", "tasks_app.job"),
            ("Commands", "bolt", "tasks_app.command"),
            ("Schedules", "schedule", "tasks_app.schedule"),
            ("Webhooks", "webhook", "tasks_app.webhookdelivery"),
            ("Events", "dynamic_feed", "tasks_app.eventdelivery"),
            ("Rows put back", "sync_problem", "tasks_app.rowtrouble"),
        ),
    ),
    (
        "Records",
        (
            ("Audit trail", "receipt_long", "tasks_app.auditentry"),
            ("Policies", "policy", "tasks_app.approvalpolicy"),
            ("Exchange rates", "currency_exchange", "tasks_app.exchangerate"),
            ("Security log", "shield_person", "tasks_app.securityevent"),
            ("Assistant turns", "forum", "tasks_app.assistantturn"),
        ),
    ),
    (
        "Administration",
        (
            ("Assistant", "smart_toy", "tasks_app.assistantmode"),
            ("House", "apartment", "tasks_app.house"),
            ("People", "person", "tasks_app.user"),
            ("Teams", "groups", "tasks_app.team"),
            ("Team webhooks", "forum", "tasks_app.teamwebhook"),
            ("Advertisers", "sell", "tasks_app.advertiser"),
        ),
    ),
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the rail: Today, approvals and the kill switch, then the pages this person may see, by group."""
    from campaigns.dashboard import badges  # models are not loaded yet when settings are read

    counts = badges(request)
    desk = (
        ("Approvals", "approval_delegation", "tasks_app.approval"),
        ("Delegations", "person_add", "tasks_app.delegation"),
        ("Kill switch", "emergency_home", "tasks_app.killswitch"),
    )
    first = [_today(request), *_items(request, desk, counts), *_commitments(request)]
    groups: list[dict[str, Any]] = [{"items": first}]
    for title, pages in _RAIL:
        items = _items(request, pages, counts)
        if items:
            groups.append({"title": title, "items": items})
    return groups


def _today(request: HttpRequest) -> dict[str, Any]:
    from django.urls import reverse

    index = reverse("admin:index")
    return {"title": "Today", "icon": "today", "link": index, "active": request.path == index}


def _commitments(request: HttpRequest) -> list[dict[str, Any]]:
    from django.urls import reverse

    if not request.user.has_perm("orders.view_deal"):
        return []
    link = reverse("commitments")
    active = request.path.startswith(link)
    return [{"title": "Commitments", "icon": "calendar_month", "link": link, "active": active}]


def _items(
    request: HttpRequest, pages: tuple[tuple[str, str, str], ...], counts: dict[str, tuple[str, str]]
) -> list[dict[str, Any]]:
    from django.apps import apps
    from django.contrib import admin
    from django.urls import reverse

    items = []
    for title, icon, label in pages:
        model = apps.get_model(label)
        if not admin.site.is_registered(model):
            continue
        if not admin.site.get_model_admin(model).has_view_permission(request):
            continue
        item = {"title": title, "icon": icon, "link": reverse(f"admin:{label.replace('.', '_')}_changelist")}
        count, variant = counts.get(label, ("", ""))
        if count:  # without the key no pill is drawn
            item |= {"badge": count, "badge_variant": variant}
        items.append(item)
    return items


def _organisation(request: HttpRequest) -> str:
    from tasks_app.people.house import house_of

    return house_of(request).name


UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Flightdeck",
    "SITE_HEADER": "Flightdeck",
    "SITE_SUBHEADER": _organisation,
    "SITE_SYMBOL": "flight_takeoff",
    "SITE_URL": None,
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
    "BORDER_RADIUS": "6px",
    "STYLES": [
        lambda request: static("desk/flightdeck.css"),
        lambda request: static("desk/pages.css"),
        lambda request: static("desk/assistant.css"),
    ],
    "SCRIPTS": [
        lambda request: static("desk/flightdeck.js"),
        lambda request: static("desk/frames.js"),
        lambda request: static("desk/assistant.js"),
    ],
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("desk/favicon.svg")}
    ],
    "DASHBOARD_CALLBACK": "campaigns.dashboard.dashboard",
    "ACCOUNT": {
        "navigation": [
            {"title": "Sessions, API tokens, second factor", "link": reverse_lazy("account")},
            {"title": "Change password", "link": reverse_lazy("admin:password_change")},
        ]
    },
    "COMMAND": {"search_models": False},
    "SIDEBAR": {
        "show_search": True,
        "command_search": True,
        "show_all_applications": False,
        "navigation": navigation,
    },
    "COLORS": {
        "base": {
            "50": "#f8f9fa",
            "100": "#f1f3f5",
            "200": "#e3e7eb",
            "300": "#cfd5dc",
            "400": "#97a1ad",
            "500": "#646f7d",
            "600": "#4a5462",
            "700": "#363f4b",
            "800": "#232a33",
            "900": "#14191f",
            "950": "#0b0f13",
        },
        "primary": {
            "50": "#eef4ff",
            "100": "#dfe9fd",
            "200": "#c3d6fb",
            "300": "#9bbaf6",
            "400": "#6c97ee",
            "500": "#4a7de3",
            "600": "#2459c9",
            "700": "#1d48a5",
            "800": "#1b3c85",
            "900": "#1a346d",
            "950": "#132248",
        },
    },
}
