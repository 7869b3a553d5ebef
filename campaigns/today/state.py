"""How the installation stands, for who administers or audits it: switches, what gave up, who has no role."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Q
from django.urls import reverse

from tasks_app.commands.kill_switch import stops_shown
from tasks_app.desk.items import Item, plural
from tasks_app.events.selectors import deliveries_visible
from tasks_app.people.models import User
from tasks_app.sellers.models import Seller

_MOST = 100


@dataclass(frozen=True, kw_only=True)
class State:
    """`items`: a line each, with where it is looked after; `people` and `no_role`: logins of people, and how
    many of them have no role."""

    items: tuple[Item, ...]
    people: int
    no_role: int


def state_of(who: User) -> State:
    """In four queries at most."""
    people = User.objects.filter(is_active=True, is_service=False)
    counted = people.aggregate(all=Count("pk", distinct=True), without=Count("pk", filter=Q(groups=None)))
    items = [_switch(), _sellers()]
    if who.has_perm("tasks_app.view_eventdelivery"):
        items.append(_given_up(who))
    if who.has_perm("tasks_app.view_user"):
        items.append(_roles(counted["without"]))
    return State(items=tuple(items), people=counted["all"], no_role=counted["without"])


def _switch() -> Item:
    found = stops_shown()
    link = reverse("admin:tasks_app_killswitch_changelist")
    if found.everywhere is not None:
        return Item(glyph="failed", text="The kill switch is on", note=found.everywhere, link=link)
    if found.teams:
        many = plural(len(found.teams), "team")
        return Item(glyph="overdue", text=f"The kill switch is on for {many}", link=link)
    return Item(glyph="done", text="The kill switch is off", note="commands reach sellers", link=link)


def _sellers() -> Item:
    off = list(Seller.objects.filter(active=False).order_by("name").values_list("name", flat=True)[:_MOST])
    link = reverse("admin:tasks_app_seller_changelist")
    if not off:
        return Item(glyph="done", text="No seller is switched off", link=link)
    return Item(
        glyph="stopped", text=f"{plural(len(off), 'seller')} switched off", note=", ".join(off[:3]), link=link
    )


def _given_up(who: User) -> Item:
    rows = deliveries_visible(who).filter(gave_up_at__isnull=False)
    count = len(rows.order_by().values_list("pk")[:_MOST])
    link = reverse("admin:tasks_app_eventdelivery_changelist")
    if not count:
        return Item(glyph="done", text="Every event was delivered", link=link)
    return Item(
        glyph="failed",
        text=f"{plural(count, 'event')} given up",
        note=f"a subscriber refused {'it' if count == 1 else 'them'}: repair that, then retry",
        link=link,
    )


def _roles(without: int) -> Item:
    link = reverse("admin:tasks_app_user_changelist")
    if not without:
        return Item(glyph="done", text="Everybody has a role", link=link)
    verb = "has" if without == 1 else "have"
    said = "person" if without == 1 else "people"
    return Item(glyph="person", text=f"{without} {said} {verb} no role", note="they see nothing", link=link)
