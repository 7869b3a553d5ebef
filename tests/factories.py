"""Rows that tests of every room need, made through the services where there is one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

from django.contrib.auth.models import Group

from orders.models import Deal
from orders.questions import ask_deal
from orders.services import DealDraft, LineDraft, deal_quote
from tasks_app import clock
from tasks_app.approvals.intents import UNDO_FOR, intents_decide
from tasks_app.approvals.models import Approval
from tasks_app.approvals.question import Question
from tasks_app.approvals.services import approval_decide, approval_open
from tasks_app.commands.models import Command
from tasks_app.lifecycle.models import Stateful
from tasks_app.people.actors import actor_ensure
from tasks_app.people.models import Advertiser, Membership, Team, User
from tasks_app.sellers.models import Account, Seller

_number = count(1)


def make_team(name: str = "Halden & Marsh") -> Team:
    return Team.objects.get_or_create(name=name)[0]


def make_user(role: str, *, team: Team | None = None, name: str = "", **fields: Any) -> User:
    """An active login with one role, in the team."""
    username = name or f"{role.lower().replace(' ', '-')}-{next(_number)}"
    user = User.objects.create(username=username, **fields)
    user.groups.add(Group.objects.get(name=role))
    Membership.objects.create(user=user, team=team or make_team())
    actor_ensure(user=user)
    return user


def make_advertiser(name: str = "Lindqvist Coffee", *, team: Team | None = None) -> Advertiser:
    domain = f"{name.lower().replace(' ', '-')}.com"
    return Advertiser.objects.get_or_create(
        team=team or make_team(), name=name, defaults={"brand_domain": domain}
    )[0]


def make_seller(name: str = "Norrland Digital", **fields: Any) -> Seller:
    """A seller that was asked what it can do, and replays repeated purchases."""
    defaults = {
        "slug": name.lower().replace(" ", "-"),
        "url": "http://127.0.0.1:9/mcp",
        "protocol": "mcp",
        "allow_private": True,
        "adcp_version": "3.2",
        "idempotency_ttl_s": 86_400,
        "tools": [
            "get_products",
            "create_media_buy",
            "get_media_buys",
            "get_task_status",
            "list_tasks",
            "update_media_buy",
        ],
    }
    return Seller.objects.create(name=name, **{**defaults, **fields})


def make_account(advertiser: Advertiser, seller: Seller, status: str = Account.Status.ACTIVE) -> Account:
    return Account.objects.create(
        advertiser=advertiser,
        seller=seller,
        reference={"account_id": f"acc-{seller.slug}"},
        status=status,
        billing_party="Halden & Marsh",
        payment_terms="net_30",
    )


def make_line(**fields: Any) -> LineDraft:
    defaults: dict[str, Any] = {
        "channel": "olv",
        "product_id": "prod-olv",
        "product_name": "Pre-roll, news",
        "pricing_option_id": "cpm-fixed",
        "pricing_model": "cpm",
        "is_fixed": True,
        "guaranteed": True,
        "rate": Decimal("14.20"),
        "ceiling": Decimal(20),
        "budget": Decimal("10250.00"),
        "minimum": Decimal(5000),
        "units": Decimal("721831.0"),
        "targeting": {"geo_countries": ["US"]},
    }
    return LineDraft(**{**defaults, **fields})


def make_deal(
    *lines: LineDraft,
    seller: Seller | None = None,
    account: bool | Account = True,
    requested_by: str = "system",
    **fields: Any,
) -> Deal:
    """A quoted deal of Lindqvist Coffee with Norrland Digital, with an active account unless told."""
    advertiser = make_advertiser()
    seller = seller or make_seller()
    start = clock.now().replace(microsecond=0) + timedelta(days=10)
    defaults: dict[str, Any] = {
        "team": advertiser.team,
        "advertiser": advertiser,
        "seller": seller,
        "account": make_account(advertiser, seller) if account is True else account or None,
        "currency": "USD",
        "start_at": start,
        "end_at": start + timedelta(days=28),
        "zone": "America/New_York",
        "lines": lines or (make_line(),),
        "terms": {},
        "reasons": {},
    }
    return deal_quote(
        draft=DealDraft(**{**defaults, **fields}), actor="system", requested_by=requested_by, reason="A test"
    )


def decided_later(by: timedelta = UNDO_FOR) -> int:
    """What the sweep decides so much later of what was said on several questions; answers how many."""
    with clock.injected(lambda: datetime.now(UTC) + by):
        return intents_decide()


def approve_deal(deal: Deal, *, approver: User | None = None) -> Approval:
    """Put the deal to people and have as many approve it as its policies want: quoted → accepted."""
    asked = ask_deal(deal)
    others = [make_user("Approver") for _ in range(asked.quorum - 1)]
    for user in (*others, approver or make_user("Approver")):
        approval = approval_decide(approval_id=asked.pk, user=user, verdict="approve", comment="Go.")
    deal.refresh_from_db()
    return approval


def make_question(
    kind: str,
    subject: Stateful | Command,
    *,
    team: Team,
    version: int = 1,
    evidence: dict[str, Any] | None = None,
    asker: User | str = "system",
) -> Approval:
    """People are asked about a row, as it stands."""
    question = Question(
        kind=kind,
        team=team,
        title="May it?",
        subject_type=subject._meta.model_name or "",
        subject_id=subject.pk,
        subject_version=version,
        evidence=evidence or {},
        policy="Always",
    )
    return approval_open(question=question, requested_by=asker, opened_by="system")
