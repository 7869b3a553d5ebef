"""Every page of the site, found by what is registered: lists, forms, one object of each kind, the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.contrib import admin
from django.db.models import Model
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from tasks_app.approvals.models import Approval
from tests.ui.pages import list_of, page_of

_OURS = ("campaigns", "orders", "tasks_app")
# Not pages: answers for scripts and machines, and where one is sent on.
_NO_PAGES = (
    "api/",
    "admin/assistant/",
    "admin/autocomplete/",
    "admin/bell/",
    "admin/jsi18n/",
    "admin/logout/",
    "admin/search/",
    "health/",
    "metrics",
)


def shown(client: Client, among: dict[str, str]) -> dict[str, str]:
    """Name to address of what the logged-in person is shown as a page, among these addresses."""
    return {name: address for name, address in among.items() if _is_page(client.get(address))}


def addresses() -> dict[str, str]:
    """Name to address of all that might be a page."""
    return {**standing(), **possible()}


def standing() -> dict[str, str]:
    """Name to address of what is a page to whoever sees everything: lists and objects."""
    return {**_lists(), **_objects()}


def possible() -> dict[str, str]:
    """Name to address of what need be no page: forms to add one, what takes no argument and is no list."""
    forms = {f"{model._meta.model_name}s-add": list_of(model) + "add/" for model, _ in registered()}
    return {**forms, **_others({*_lists().values(), *forms.values()})}


def _lists() -> dict[str, str]:
    found = {}
    for model, model_admin in registered():
        name, address = f"{model._meta.model_name}s", list_of(model)
        found[name] = address
        views: dict[str, Any] = getattr(model_admin, "views", {})
        found |= {f"{name}-{view}": f"{address}?view={view}" for view in views if view}
    return found


def _objects() -> dict[str, str]:
    """The newest of each, but of approvals the newest of each kind and status."""
    found = {}
    for model, _ in registered():
        if model is Approval:
            continue
        newest = model._default_manager.order_by("-pk").first()
        if newest is not None:
            found[str(model._meta.model_name)] = page_of(newest)
    asked = Approval.objects.order_by("kind", "status", "-id").distinct("kind", "status")
    return found | {f"approval-{one.kind}-{one.status}": page_of(one) for one in asked}


def _others(known: set[str]) -> dict[str, str]:
    """What takes no argument and is not known already."""
    dashboard = reverse("admin:index")
    found = {
        address.strip("/").replace("/", "-") or "home": address
        for address in ("/" + route for route in routes(get_resolver(), ""))
        if address not in {*known, dashboard} and not address.lstrip("/").startswith(_NO_PAGES)
    }
    return {"dashboard": dashboard, **found}


def routes(resolver: URLResolver, before: str) -> Iterator[str]:
    """Every address that takes no argument, without the first slash."""
    for one in resolver.url_patterns:
        route = before + str(one.pattern)
        if "<" in route or "^" in route or "(" in route:
            continue
        if isinstance(one, URLResolver):
            yield from routes(one, route)
        elif isinstance(one, URLPattern):
            yield route


def registered() -> list[tuple[type[Model], Any]]:
    """Our models in the admin, with their admin."""
    return [(m, a) for m, a in admin.site._registry.items() if m._meta.app_label in _OURS]


def _is_page(answer: Any) -> bool:
    return answer.status_code == 200 and answer["Content-Type"].startswith("text/html")
