"""The people of a run: they put deals forward and approve them through the product's services.

A step that meets a killed database raises OperationalError or InterfaceError; the caller repeats it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import F, Q, QuerySet

from orders.models import Deal, DealLine
from orders.questions import DEAL, ask_deal
from orders.services import DealDraft, LineDraft, deal_quote
from tasks_app import clock
from tasks_app.approvals.models import Approval, ApprovalStatus
from tasks_app.approvals.policy_applying import policies_latest
from tasks_app.approvals.policy_models import PolicyRule
from tasks_app.approvals.policy_services import draft_of, policy_change
from tasks_app.approvals.services import approval_decide
from tasks_app.commands.kill_switch import kill_switch_set, stops
from tasks_app.commands.models import Command
from tasks_app.jobs.models import JOB_OPEN, Job
from tasks_app.operations.models import Operation, OperationStatus
from tasks_app.people.actors import SYSTEM, actor_ensure
from tasks_app.people.models import Advertiser, Team, User
from tasks_app.people.rights import rights_recorded
from tasks_app.sellers.accounts_told import account_record
from tasks_app.sellers.models import Account
from tasks_app.sellers.services import seller_add, seller_timing_change
from tasks_app.webhooks.models import WebhookDelivery
from tests.chaos.plan import SELLERS, Scenario
from tests.chaos.product import Product

WINDOW = 120  # unfinished purchases at the same time
_PER_STEP = 8
_DAY = timedelta(hours=25)  # longer than a purchase may take until it is sent
_TIMING = {"call_cap_s": 15, "unclear_cap_s": 15}  # a slow machine cuts more calls off than planned


def purchases() -> QuerySet[Operation]:
    """Return the operations that buy for the deals of the run."""
    return Operation.objects.filter(task_type="create_media_buy", subject_type="deal")


def budget(scenario: Scenario) -> Decimal:
    return Decimal(1000 + scenario.number)


class Buyer:
    """Orders the scenarios' products, at most `WINDOW` unfinished at a time."""

    def __init__(self, scenarios: list[Scenario]) -> None:
        self._scenarios = scenarios
        self._next = 0
        self._accounts: dict[str, Account] = {}

    def prepare(self, product: Product) -> None:
        """Create people, sellers and accounts. Raise DiscoveryError."""
        team = Team.objects.create(name="Chaos")
        administrator = _person(team, "Administrator", username="ada", first_name="Ada", last_name="Okafor")
        self.approver = _person(team, "Approver", username="maya", first_name="Maya", last_name="Lindgren")
        _allow_many_small_deals(administrator)
        self._advertiser = Advertiser.objects.create(
            team=team, name="Lindqvist", brand_domain="lindqvist.com"
        )
        for name, (protocol, signature) in SELLERS.items():
            process = product.sellers[name]
            seller, _ = seller_add(
                name=name,
                url=process.url,
                protocol=protocol,
                token=process.token,
                webhooks=signature,
                jwks_url=process.keys_url if signature == "rfc9421" else "",
                allow_private=True,
                slots=16,
            )
            seller_timing_change(seller=seller, timing=_TIMING, actor=administrator)
            answer = {"account_id": f"acc-{name}", "status": "active"}
            self._accounts[name] = account_record(advertiser=self._advertiser, seller=seller, answer=answer)

    def step(self, done: int) -> None:
        """Put a few more deals forward and approve the deals that wait."""
        free = min(WINDOW - (self._next - done), _PER_STEP)
        for scenario in self._scenarios[self._next : self._next + max(free, 0)]:
            self._put_forward(scenario)
            self._next += 1
        for approval in Approval.objects.filter(kind=DEAL, status=ApprovalStatus.OPEN):
            approval_decide(
                approval_id=approval.pk,
                user=self.approver,
                verdict="approve",
                comment="Go.",
                expected_digest=approval.evidence_digest,
            )

    def count_done(self) -> int:
        """Count the purchases that are settled and published, or overdue and with a person."""
        return purchases().filter(Q(published_at__isnull=False) | Q(status=OperationStatus.TIMED_OUT)).count()

    def is_at_rest(self, done: int) -> bool:
        """Return whether all are done, and no job waits for anything but an unpublished purchase."""
        waiting = purchases().filter(published_at__isnull=True).count()
        return done == len(self._scenarios) and Job.objects.filter(status__in=JOB_OPEN).count() <= waiting

    def expire_endless(self) -> None:
        """Bring the deadlines forward of the purchases that no seller will ever answer."""
        endless = [scenario.product_id for scenario in self._scenarios if not scenario.ends]
        deals = DealLine.objects.filter(product_id__in=endless).values("deal_id")
        waiting = purchases().filter(subject_id__in=deals, sent_at__isnull=False, settled_at__isnull=True)
        now = clock.now()
        waiting.filter(deadline_at__gt=now).exclude(status=OperationStatus.TIMED_OUT).update(deadline_at=now)

    def set_kill_switch(self, *, on: bool) -> None:
        if (stops().everywhere is not None) != on:  # an earlier attempt may have been committed
            with transaction.atomic():
                kill_switch_set(on=on, reason="A day off" if on else "Back again", actor=SYSTEM)

    def count_held(self) -> int:
        """Count the approved purchases that wait at the kill switch and were never sent."""
        waiting = Command.objects.filter(waiting_since__isnull=False, refused_at__isnull=True)
        return self._unsent().filter(purpose__in=waiting.values("key")).count()

    def can_hold_more(self) -> bool:
        """Return whether a purchase is left that the kill switch could still hold."""
        sent = purchases().filter(sent_at__isnull=False).count()
        return sent + self.count_held() < len(self._scenarios)

    @transaction.atomic
    def pass_a_day(self) -> int:
        """Age what was never sent by a day: deadlines, jobs, early webhooks. Return how many are held."""
        jobs = Job.objects.filter(status__in=JOB_OPEN, subject_id__in=self._unsent().values("subject_id"))
        jobs.update(expires_at=F("expires_at") - _DAY)
        early = WebhookDelivery.objects.filter(verdict=WebhookDelivery.Verdict.EARLY)
        early.update(bound_until=F("bound_until") - _DAY)
        self._unsent().update(deadline_at=F("deadline_at") - _DAY, turn_at=F("turn_at") - _DAY)
        return self.count_held()

    def _unsent(self) -> QuerySet[Operation]:
        return purchases().filter(status=OperationStatus.REQUESTED, sent_at__isnull=True)

    def _put_forward(self, scenario: Scenario) -> None:
        if DealLine.objects.filter(product_id=scenario.product_id).exists():
            return  # committed by an attempt whose answer was lost
        with transaction.atomic():
            ask_deal(self._quote(scenario))

    def _quote(self, scenario: Scenario) -> Deal:
        start = clock.now().replace(microsecond=0) + timedelta(days=10)
        account = self._accounts[scenario.seller]
        line = LineDraft(
            channel="display",
            product_id=scenario.product_id,
            product_name=scenario.kind,
            pricing_option_id="fake-cpm",
            pricing_model="cpm",
            is_fixed=True,
            guaranteed=True,
            rate=Decimal(10),
            ceiling=Decimal(20),
            budget=budget(scenario),
            minimum=None,
            units=None,
        )
        draft = DealDraft(
            team=self._advertiser.team,
            advertiser=self._advertiser,
            seller=account.seller,
            account=account,
            currency="USD",
            start_at=start,
            end_at=start + timedelta(days=28),
            zone="UTC",
            lines=(line,),
            terms={},
            reasons={"scenario": scenario.kind},
        )
        return deal_quote(draft=draft, actor="system", requested_by="system", reason="The chaos run")


def _person(team: Team, role: str, **columns: str) -> User:
    user = User(**columns)
    with rights_recorded(user, by=SYSTEM):
        user.save()
        user.groups.add(Group.objects.get(name=role))
        user.teams.add(team)
    actor_ensure(user=user)
    return user


def _allow_many_small_deals(administrator: User) -> None:
    """Turn the policy against split orders off: the run is a thousand small deals of one advertiser."""
    row = policies_latest().get(rule=PolicyRule.SPLITTING)
    policy_change(
        key=row.key,
        version=row.version,
        draft=replace(draft_of(row), active=False),
        actor=administrator,
        reason="A run of many small deals",
    )
