"""What a new installation still lacks before its first brief, for the administrator who sets it up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Exists, Subquery
from django.urls import reverse

from campaigns.models import Campaign
from tasks_app.desk.items import Item
from tasks_app.people.holders import people_with
from tasks_app.people.models import Advertiser, House, Team, User
from tasks_app.people.roles import DECIDE
from tasks_app.sellers.models import Account, Seller

_ADMINISTERS = "tasks_app.add_team"


def first_steps(viewer: User) -> Sequence[Item]:
    """Return every step of the setup, done or missing, for an administrator; () once all are done.

    A missing step links the page that does it, unless another step comes first.
    """
    if not viewer.has_perm(_ADMINISTERS):
        return ()
    present = _present(viewer)
    if all(present.values()):
        return ()
    without_house = "" if present["house"] else "Name the house first."
    without_team = "" if present["team"] else "Add a team first."
    return [
        _step(
            "Name the house",
            "Your organisation. Flightdeck contacts no seller before.",
            link=_add("house"),
            done=present["house"],
        ),
        _step(
            "Add a team",
            "A team sees only its own campaigns and deals. You become a member of the first.",
            link=_add("team"),
            done=present["team"],
        ),
        _step(
            "Add an advertiser",
            "The client for whom you buy.",
            link=f"{_add('advertiser')}&team={present['team']}",
            done=present["advertiser"],
            blocked=without_team,
        ),
        _step(
            "Invite an approver",
            "Nobody approves what they asked for themselves.",
            link=_add("user"),
            done=present["approver"],
            blocked=without_house or without_team,
        ),
        _seller_step(done=present["account"], blocked=without_house),
        _step(
            "Submit the first brief",
            "Flightdeck asks the sellers for offers; an approver decides.",
            link=reverse("admin:campaign_submit"),
            done=present["campaign"],
            blocked="" if present["advertiser"] else "Add an advertiser first.",
        ),
    ]


def _present(viewer: User) -> dict[str, Any]:
    """Return which of the things there are, in one query; the first team by its id."""
    present = User.objects.values(
        house=Exists(House.objects.all()),
        team=Subquery(Team.objects.values("pk")[:1]),
        advertiser=Exists(Advertiser.objects.all()),
        approver=Exists(people_with(DECIDE, None).exclude(pk=viewer.pk)),
        account=Exists(Account.objects.filter(status=Account.Status.ACTIVE)),
        campaign=Exists(Campaign.objects.all()),
    )
    return dict(present.get(pk=viewer.pk))


def _step(title: str, reason: str, *, link: str, done: Any, blocked: str = "") -> Item:
    """Return one step; `blocked` names the step that comes first."""
    if done:
        return Item(glyph="done", text=title)
    return Item(glyph="waiting", text=title, note=blocked or reason, link="" if blocked else link)


def _seller_step(*, done: bool, blocked: str) -> Item:
    """Return the step that lasts until a seller has an active account of ours."""
    seller = None if done else Seller.objects.order_by("pk").only("name").first()
    if seller:
        link = reverse("admin:tasks_app_seller_change", args=[seller.pk])
        return _step(f"Make {seller} ready to buy", "Its page says what it lacks.", link=link, done=False)
    reason = "Flightdeck asks it what it can do, and for an account."
    return _step("Add a seller", reason, link=_add("seller"), done=done, blocked=blocked)


def _add(model: str) -> str:
    return reverse(f"admin:tasks_app_{model}_add") + "?next=today"
