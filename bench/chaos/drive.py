"""The people of the run: deals are put forward, and one approver books them, as the product has it done.

Every step may meet a database that was just killed (OperationalError, InterfaceError) and is made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import transaction
from django.db.models import F, Q, QuerySet

from bench.chaos.plan import FLOODED, SELLERS, SLOTS, Script
from bench.chaos.stage import Stage
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
from tasks_app.operations.models import PENDING, SETTLED, Operation, OperationStatus
from tasks_app.people.actors import SYSTEM, actor_ensure
from tasks_app.people.models import Advertiser, Team, User
from tasks_app.people.rights import rights_recorded
from tasks_app.sellers.accounts_told import account_record
from tasks_app.sellers.models import Account
from tasks_app.sellers.services import seller_add, seller_timing_change
from tasks_app.webhooks.models import WebhookDelivery

BUDGET = Decimal(1000)
_AT_ONCE = 8
# A slow machine cuts off calls beside those that are planned: none is made again only after many minutes.
_TIMING = {"call_cap_s": 15, "unclear_cap_s": 15}
_SELDOM = timedelta(hours=1)  # the flooded seller's tasks are looked at when the run says so
_DAY = timedelta(hours=25)  # and an hour: longer than the time that a purchase has to be sent


def purchases() -> Q:
    """The operations that the run is about."""
    return Q(task_type="create_media_buy", subject_type="deal")


def _unsent() -> QuerySet[Operation]:
    return Operation.objects.filter(purchases(), status=OperationStatus.REQUESTED, sent_at__isnull=True)


class Desk:
    """Puts the scripts' deals forward, at most `window` unfinished at a time, and approves them."""

    def __init__(self, scripts: Sequence[Script], *, window: int) -> None:
        self._scripts = scripts
        self._window = window
        self._next = 0
        self._accounts: dict[str, Account] = {}

    def prepare(self, stage: Stage) -> None:
        """People, sellers and accounts. Raises DiscoveryError."""
        team = Team.objects.create(name="Chaos")
        administrator = _person(team, "Administrator", username="ada", first_name="Ada", last_name="Okafor")
        self.approver = _person(team, "Approver", username="maya", first_name="Maya", last_name="Lindgren")
        _split_orders_pass(administrator)
        self._advertiser = Advertiser.objects.create(
            team=team, name="Lindqvist", brand_domain="lindqvist.com"
        )
        for name, (protocol, signed) in SELLERS.items():
            seller, _ = seller_add(
                name=name,
                url=stage.seller_url(name),
                protocol=protocol,
                token=stage.token,
                webhooks=signed,
                jwks_url=stage.jwks_url(name) if signed == "rfc9421" else "",
                allow_private=True,
                slots=SLOTS[name],
            )
            own = {"submitted_s": _SELDOM.total_seconds() / settings.POLL_SCALE} if name == FLOODED else {}
            seller_timing_change(seller=seller, timing={**_TIMING, **own}, actor=administrator)
            answer = {"account_id": f"acc-{name}", "status": "active"}
            self._accounts[name] = account_record(advertiser=self._advertiser, seller=seller, answer=answer)

    def step(self, done: int) -> None:
        """Some more deals, as far as there is room, and a decision on each that waits for one."""
        room = min(self._window - (self._next - done), _AT_ONCE)
        for script in self._scripts[self._next : self._next + max(room, 0)]:
            self._put_forward(script)
            self._next += 1
        for approval in Approval.objects.filter(kind=DEAL, status=ApprovalStatus.OPEN):
            approval_decide(
                approval_id=approval.pk,
                user=self.approver,
                verdict="approve",
                comment="Go.",
                expected_digest=approval.evidence_digest,
            )

    def flood(self) -> int:
        """Once the flooded seller has all of its tasks, look at each now; again at one that a kill has left
        for later. Answers how many."""
        mine = Operation.objects.filter(purchases(), seller__name=FLOODED)
        at_work = mine.filter(status__in=PENDING)
        wanted = sum(script.seller == FLOODED for script in self._scripts)
        if at_work.count() + mine.filter(status__in=SETTLED).count() < wanted:
            return 0
        now = clock.now()
        return at_work.filter(next_poll_at__gt=now + _SELDOM / 2).update(next_poll_at=now)

    def done(self) -> int:
        """Purchases that are over, or overdue and with a person."""
        over = Q(published_at__isnull=False) | Q(status=OperationStatus.TIMED_OUT)
        return Operation.objects.filter(purchases(), over).count()

    def time_passes(self) -> None:
        """The deadline comes of what was sent and no seller will ever answer. Only of that: how fast the
        machine is decides about no purchase."""
        names = [script.product_id for script in self._scripts if script.endless]
        deals = DealLine.objects.filter(product_id__in=names).values("deal_id")
        waiting = Operation.objects.filter(purchases(), subject_id__in=deals, sent_at__isnull=False)
        now = clock.now()
        waiting.filter(settled_at__isnull=True, deadline_at__gt=now).exclude(
            status=OperationStatus.TIMED_OUT
        ).update(deadline_at=now)

    def stop(self, *, on: bool) -> None:
        """Turn the kill switch of all teams, once, also when the answer to it was lost."""
        if (stops().everywhere is not None) == on:
            return
        with transaction.atomic():
            kill_switch_set(on=on, reason="A day off" if on else "Back again", actor=SYSTEM)

    def held(self) -> int:
        """Approved purchases that wait for the switch at their gate, and never left."""
        waiting = Command.objects.filter(waiting_since__isnull=False, refused_at__isnull=True)
        return _unsent().filter(purpose__in=waiting.values("key")).count()

    def all_stand(self) -> bool:
        """Whether every purchase was sent, or waits for the switch: no more of them can be held."""
        left = Operation.objects.filter(purchases(), sent_at__isnull=False).count()
        return left + self.held() >= len(self._scripts)

    @transaction.atomic
    def day_passes(self) -> int:
        """What never left was kept for a day: its deadline and its turn have passed, its job's own time, the
        horizon of deliveries whose task nobody knows yet. Answers how many purchases the switch holds."""
        jobs = Job.objects.filter(status__in=JOB_OPEN, subject_id__in=_unsent().values("subject_id"))
        jobs.update(expires_at=F("expires_at") - _DAY)
        early = WebhookDelivery.objects.filter(verdict=WebhookDelivery.Verdict.EARLY)
        early.update(bound_until=F("bound_until") - _DAY)
        _unsent().update(deadline_at=F("deadline_at") - _DAY, turn_at=F("turn_at") - _DAY)
        return self.held()

    def at_rest(self, done: int) -> bool:
        """Nothing moves any more but by a person or a seller."""
        if done < len(self._scripts):
            return False
        waiting = Operation.objects.filter(purchases(), published_at__isnull=True)
        return Job.objects.filter(status__in=JOB_OPEN).count() <= waiting.count()

    def _put_forward(self, script: Script) -> None:
        """Its deal and the question to people, in one commit; once, also when the answer to it was lost."""
        if DealLine.objects.filter(product_id=script.product_id).exists():
            return
        with transaction.atomic():
            ask_deal(self._quote(script))

    def _quote(self, script: Script) -> Deal:
        start = clock.now().replace(microsecond=0) + timedelta(days=10)
        account = self._accounts[script.seller]
        line = LineDraft(
            channel="display",
            product_id=script.product_id,
            product_name=script.kind,
            pricing_option_id="cpm",
            pricing_model="cpm",
            is_fixed=True,
            guaranteed=True,
            rate=Decimal(10),
            ceiling=Decimal(20),
            budget=BUDGET + script.number,
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
            reasons={"script": script.kind},
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


def _split_orders_pass(administrator: User) -> None:
    """Thousands of small deals of one advertiser are what this run is made of: one approver each."""
    row = policies_latest().get(rule=PolicyRule.SPLITTING)
    policy_change(
        key=row.key,
        version=row.version,
        draft=replace(draft_of(row), active=False),
        actor=administrator,
        reason="A run of thousands of small deals",
    )
