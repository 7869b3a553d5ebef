"""The rows that several benches need: a team, a seller with an account, a person with a session, deals."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orders.models import Deal
    from tasks_app.people.models import Advertiser, Team, User
    from tasks_app.sellers.models import Account, Seller


def create_advertiser() -> Advertiser:
    """Create a team with one advertiser."""
    from tasks_app.people.models import Advertiser, Team

    team = Team.objects.create(name="Bench")
    return Advertiser.objects.create(team=team, name="Bench", brand_domain="bench.example")


def create_seller(slug: str, **columns: Any) -> Seller:
    """Create a seller; unless `columns` name another one, nothing listens at its address."""
    from tasks_app.people.actors import SYSTEM
    from tasks_app.sellers.models import Seller
    from tasks_app.sellers.services import seller_born

    defaults = {"url": "http://127.0.0.1:9/mcp", "protocol": "mcp", "allow_private": True}
    seller = Seller(**{**defaults, "name": slug, "slug": slug, **columns})
    seller_born(seller, SYSTEM, {"added": True})
    return seller


def create_account(advertiser: Advertiser, seller: Seller) -> Account:
    """Create an active account."""
    from tasks_app.people.actors import SYSTEM
    from tasks_app.sellers.models import Account
    from tasks_app.sellers.services import account_add

    reference = {"account_id": f"bench-{seller.slug}"}
    account = Account(advertiser=advertiser, seller=seller, reference=reference, status="active")
    account_add(account=account, actor=SYSTEM)
    return account


def create_person(team: Team, role: str) -> tuple[User, str]:
    """Create a person with a role; return them and the key of a session of theirs."""
    from django.contrib.auth.models import Group
    from django.test import Client

    from tasks_app.people.actors import SYSTEM, actor_ensure
    from tasks_app.people.models import User
    from tasks_app.people.rights import rights_recorded

    person = User(username=role.lower(), is_staff=True)
    with rights_recorded(person, by=SYSTEM):
        person.save()
        person.groups.set([Group.objects.get(name=role)])
        person.teams.set([team])
    actor_ensure(user=person)
    browser = Client()
    browser.force_login(person, backend="tasks_app.people.holders.RoleBackend")
    return person, browser.cookies["sessionid"].value


def create_deals(account: Account, count: int, *, prefix: str, **columns: Any) -> list[Deal]:
    """Create quoted deals of one line each, with their trail; `columns` of a deal may be lists of `count`."""
    from django.db import transaction
    from django.utils import timezone

    from orders.models import Deal, DealLine
    from tasks_app.lifecycle.transitions import create_many

    start = timezone.now() + timedelta(days=14)
    each = {name: value if isinstance(value, list) else [value] * count for name, value in columns.items()}
    deals = [
        Deal(
            reference=f"{prefix}-{number}",
            team=account.advertiser.team,
            advertiser=account.advertiser,
            seller=account.seller,
            account=account,
            currency="USD",
            start_at=start,
            end_at=start + timedelta(days=28),
            requested_by="system",
            **{"zone": "UTC", **{name: values[number] for name, values in each.items()}},
        )
        for number in range(count)
    ]
    lines = [
        DealLine(
            deal=deal,
            position=1,
            channel="display",
            product_id="display-1",
            product_name="Display",
            pricing_option_id="cpm-1",
            pricing_model="cpm",
            is_fixed=True,
            rate=Decimal("12.50"),
            budget=Decimal(200),
            start_at=deal.start_at,
            end_at=deal.end_at,
        )
        for deal in deals
    ]
    with transaction.atomic():
        create_many(deals, actor="system", reason="A bench")
        DealLine.objects.bulk_create(lines)
    return deals
