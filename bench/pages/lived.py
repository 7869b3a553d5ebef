"""Campaigns that were really lived: `python -m bench.pages.lived models|asked ROUNDS|verify`, on the database
of its environment.

The product's own workers' code runs them here, in this process, and what sellers say is observed as if it had
come by reply; nobody is asked over the network. `models` are there once, one of each sort is what `copies`
multiplies; `asked` are those whose questions a run decides on, and the sessions that do so. Prints one line
of JSON: see `Lived`.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from bench.pages import OPEN, SELLERS
from bench.sellers import account_made, seller_made

if TYPE_CHECKING:
    from campaigns.models import Campaign
    from orders.models import Deal
    from tasks_app.operations.models import Operation
    from tasks_app.people.models import Advertiser, Team, User

PASSWORD = "a-password-for-the-bench-only"  # noqa: S105
CHANNELS = (
    "display",
    "olv",
    "ctv",
    "linear_tv",
    "radio",
    "streaming_audio",
    "podcast",
    "dooh",
    "ooh",
    "social",
)
_TOOLS = ["get_products", "create_media_buy", "get_media_buys", "get_task_status", "update_media_buy"]
_TEAMS, _APPROVERS = ("North", "South"), 3
_REJECTED = 2  # of a campaign that is over
_LOOKED_AT = 50


@dataclass
class Lived:
    """Ids and sessions, as text. `models`: per sort (open, booking, over) the campaign to copy, and the rows
    made for it, by table; `campaigns`: all that were lived; `asked`: approvals to decide on; `sessions`: by
    viewer the session key; `quoted`: what somebody may look for, each with a page that shows it."""

    models: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    campaigns: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    sessions: dict[str, str] = field(default_factory=dict)
    quoted: list[str] = field(default_factory=list)


def models() -> Lived:
    """Some under way, some over, and one that waits for its decisions."""
    world, lived = _World.made(), Lived()
    for sort, count in (("over", 4), ("booking", 3), ("open", 1)):
        for number in range(count):
            before = _rows()
            world.live(sort, lived)
            if number == 0:
                lived.models[sort] = _made_since(before)
    return lived


def asked(rounds: int) -> Lived:
    """So many rounds' decisions' worth of campaigns that wait for them, and who looks and decides."""
    world, lived = _World(), Lived()
    for _ in range(rounds * OPEN):
        lived.asked += world.asked(world.live("open", lived))
    lived.sessions = {"all": world.session(world.viewer), "few": world.session(world.elsewhere)}
    return lived


def verify() -> None:
    """Raises SystemExit where a chain among the oldest or the newest of a kind is broken."""
    from campaigns.models import Campaign
    from orders.models import Deal
    from tasks_app.approvals.models import Approval
    from tasks_app.lifecycle.verify import verify_entity

    for model in (Campaign, Deal, Approval):
        for order in ("id", "-id"):
            for pk in model._default_manager.order_by(order).values_list("pk", flat=True)[:_LOOKED_AT]:
                checked = verify_entity(model.entity, pk)
                if not checked.ok:
                    raise SystemExit(f"{model.entity} {pk}: {checked.problem}")


class _World:
    """Who is there before anything happens: two teams, their people, an advertiser each, the sellers."""

    def __init__(self) -> None:
        from tasks_app.people.models import Advertiser, Team, User

        teams = [Team.objects.get(name=name) for name in _TEAMS]
        self.teams = dict(zip(("open", "booking"), teams, strict=True)) | {"over": teams[0]}
        people = {user.username: user for user in User.objects.filter(is_service=False)}
        self.buyers = {team.pk: people[f"buyer-{team.name}"] for team in teams}
        self.approvers = [people[f"approver-{n}"] for n in range(_APPROVERS)]
        self.viewer, self.elsewhere = people["viewer"], people["elsewhere"]
        self.advertisers = {team.pk: Advertiser.objects.get(team=team) for team in teams}

    @classmethod
    def made(cls) -> _World:
        """On a database where nothing is yet."""
        from tasks_app.people.models import Advertiser, Team

        teams = [Team.objects.create(name=name) for name in _TEAMS]
        for team in teams:
            _person(f"buyer-{team.name}", "Buyer", [team])
        for username in ("viewer", *(f"approver-{n}" for n in range(_APPROVERS))):
            _person(username, "Approver", teams)
        _person("elsewhere", "Approver", teams[1:])
        advertisers = [
            Advertiser.objects.create(
                team=team, name=f"Client of {team.name}", brand_domain=f"{team.name.lower()}.example"
            )
            for team in teams
        ]
        for number in range(SELLERS):
            _seller(number, advertisers)
        return cls()

    def live(self, sort: str, lived: Lived) -> Campaign:
        """One more of that sort, run as far as it goes, and noted."""
        campaign = self.campaign(sort)
        lived.campaigns.append(str(campaign.pk))
        lived.quoted += self.quotable(campaign)
        return campaign

    def campaign(self, sort: str) -> Campaign:
        """One of that sort, run as far as it goes."""
        from campaigns.services import campaign_submit

        team = self.teams[sort]
        campaign = campaign_submit(user=self.buyers[team.pk], raw=self._brief(team))
        _run(sort)
        if sort != "open":
            self._decide(campaign, rejected=_REJECTED if sort == "over" else 0)
            _run(sort)
        campaign.refresh_from_db()
        expected = {"open": "awaiting_approval", "booking": "executing_bookings", "over": "completed"}[sort]
        if campaign.status != expected:
            raise SystemExit(f"a campaign is {campaign.status}, not {expected}")
        return campaign

    def asked(self, campaign: Campaign) -> list[str]:
        """Its open questions."""
        from tasks_app.approvals.models import Approval

        found = Approval.objects.filter(status="open", subject_id__in=_deals(campaign).values("pk"))
        return [str(pk) for pk in found.order_by("id").values_list("pk", flat=True)]

    def quotable(self, campaign: Campaign) -> list[str]:
        """What somebody may be told on the telephone about one of its deals."""
        deal = _deals(campaign).order_by("-id")[0]
        return [text for text in (campaign.reference, deal.reference, deal.media_buy_id) if text]

    def session(self, user: User) -> str:
        """Of somebody who is logged in, with the second factor."""
        from django.conf import settings
        from django.test import Client

        from tasks_app.people.second_factor import DONE, STATE

        client = Client()
        client.force_login(user, backend="tasks_app.people.holders.RoleBackend")
        session = client.session
        session[STATE] = DONE
        session.save()
        return str(client.cookies[settings.SESSION_COOKIE_NAME].value)

    def _decide(self, campaign: Campaign, *, rejected: int) -> None:
        """Everybody needed says yes, to the first so many one says no."""
        from tasks_app.approvals.models import Approval
        from tasks_app.approvals.services import approval_decide

        for number, asked in enumerate(self.asked(campaign)):
            verdict = "reject" if number < rejected else "approve"
            for approver in self.approvers:
                if Approval.objects.get(pk=asked).status == "open":
                    approval = Approval.objects.get(pk=asked)
                    approval_decide(
                        approval_id=approval.pk,
                        user=approver,
                        verdict=verdict,
                        comment="As planned.",
                        expected_digest=approval.evidence_digest,
                    )

    def _brief(self, team: Team) -> dict[str, Any]:
        advertiser = self.advertisers[team.pk]
        return {
            "name": f"{team.name} spring",
            "advertiser": advertiser.name,
            "brand_domain": advertiser.brand_domain,
            "objective": {"goal": "Reach of new customers", "kpi": "reach", "target": 1_200_000},
            "budget": {"total": "500000", "currency": "USD"},
            "flight": {"start": "+14d", "end": "+41d", "zone": "America/New_York"},
            "channels": [{"channel": channel, "weight": 10} for channel in CHANNELS],
            "audience": "Adults 25-54",
            "geography": {"countries": ["US"]},
            "formats": ["video_hosted", "image"],
            "measurement": ["impressions"],
        }


def _seller(number: int, advertisers: list[Advertiser]) -> None:
    """With an account of each advertiser."""
    seller = seller_made(
        name=f"Seller {number}",
        slug=f"seller-{number}",
        url=f"http://127.0.0.1:9/{number}",
        adcp_version="3.2",
        idempotency_ttl_s=86_400,
        tools=_TOOLS,
        slots=100,
    )
    for advertiser in advertisers:
        account_made(advertiser, seller, f"acc-{number}-{advertiser.pk}")


def _person(username: str, role: str, teams: list[Team]) -> User:
    from django.contrib.auth.models import Group

    from tasks_app.people.actors import SYSTEM, actor_ensure
    from tasks_app.people.models import User
    from tasks_app.people.rights import rights_recorded

    user = User(username=username, is_staff=True)
    with rights_recorded(user, by=SYSTEM):
        user.set_password(PASSWORD)
        user.save()
        user.groups.set([Group.objects.get(name=role)])
        user.teams.set(teams)
    actor_ensure(user=user)
    return user


def _run(sort: str) -> None:
    """Steps and sellers' answers in turn, until neither has anything more to do."""
    from tasks_app.jobs.worker import drain
    from tasks_app.operations.models import Operation

    while drain() or _answered(Operation.objects.filter(status="requested").order_by("id"), sort):
        pass


def _answered(operations: Any, sort: str) -> int:
    from tasks_app.adcp.types import Seen
    from tasks_app.operations.converge import observe
    from tasks_app.operations.dispatch import claim_one
    from tasks_app.operations.publish import publish

    asked = list(operations.select_related("seller"))
    for operation in asked:
        call = claim_one(operation_id=operation.pk)
        if call is None:
            raise SystemExit(f"{operation.task_type} cannot be sent")
        waits = sort == "booking" and operation.task_type == "create_media_buy"
        seen = Seen(
            kind="answer",
            status="submitted" if waits else "completed",
            payload=None if waits else _ANSWERS[operation.task_type](operation),
            task_id=f"task-{operation.pk}" if waits else None,
        )
        observe(operation_id=operation.pk, seen=seen, channel="reply", answered=call.lease)
        publish(operation_id=operation.pk)
    return len(asked)


def _products(operation: Operation) -> dict[str, Any]:
    """One product, in the seller's own channel."""
    number = int(operation.seller.slug.rpartition("-")[2])
    option = {"pricing_option_id": "cpm-1", "pricing_model": "cpm", "currency": "USD", "fixed_price": 12.5}
    return {
        "products": [
            {
                "product_id": f"product-{number}",
                "name": f"Everything in {CHANNELS[number]}",
                "channels": [CHANNELS[number]],
                "delivery_type": "guaranteed",
                "pricing_options": [option],
            }
        ]
    }


def _bought(operation: Operation) -> dict[str, Any]:
    return {
        "media_buy_id": f"mb-{operation.subject_id}",
        "media_buy_status": "pending_start",
        "revision": 1,
        "packages": _packages(_deal(operation)),
    }


def _media_buys(operation: Operation) -> dict[str, Any]:
    wanted = operation.request["media_buy_ids"][0]
    return {"media_buys": [{"media_buy_id": wanted, "status": "pending_start", "revision": 1}]}


def _packages(deal: Deal) -> list[dict[str, Any]]:
    return [
        {
            "package_id": f"package-{line.position}",
            "product_id": line.product_id,
            "pricing_option_id": line.pricing_option_id,
            "budget": float(line.budget),
            "start_time": line.start_at.isoformat(),
            "end_time": line.end_at.isoformat(),
            "targeting_overlay": line.targeting,
            "context": {"line_id": str(line.pk)},
        }
        for line in deal.lines.all()
    ]


_ANSWERS = {"get_products": _products, "create_media_buy": _bought, "get_media_buys": _media_buys}


def _deal(operation: Operation) -> Deal:
    from orders.models import Deal

    return Deal.objects.get(pk=str(operation.subject_id))


def _deals(campaign: Campaign) -> Any:
    from orders.models import Deal

    return Deal.objects.filter(campaign_id=campaign.pk)


def _rows() -> dict[str, set[str]]:
    """Every table's keys: what is there before a campaign is lived."""
    from django.apps import apps

    ours = (apps.get_app_config(label) for label in ("campaigns", "orders", "tasks_app"))
    return {
        model._meta.db_table: {str(pk) for pk in model._default_manager.values_list("pk", flat=True)}
        for app in ours
        for model in app.get_models()
    }


def _made_since(before: dict[str, set[str]]) -> dict[str, list[str]]:
    return {table: sorted(keys - before[table]) for table, keys in _rows().items() if keys - before[table]}


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    if sys.argv[1] == "verify":
        verify()
        return 0
    lived = models() if sys.argv[1] == "models" else asked(int(sys.argv[2]))
    print(json.dumps(asdict(lived)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
