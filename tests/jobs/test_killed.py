"""A worker killed at every turn of a campaign: it is resumed, nothing runs twice, nothing is bought twice."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
from django.utils import timezone

from campaigns.models import Campaign
from campaigns.services import campaign_job, campaign_submit
from config.processes import ProcessGroup
from orders.models import Deal
from tasks_app.approvals.models import Approval
from tasks_app.approvals.services import approval_decide
from tasks_app.jobs.models import Job, Step, WorkflowEvent
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.verify import entity_models, verify_all
from tasks_app.operations.lease import CallLease
from tasks_app.operations.models import Operation
from tasks_app.sellers.models import Seller
from tasks_app.sellers.services import seller_add
from tests.database import Database
from tests.factories import make_advertiser, make_user
from tests.fake_seller.driver import FakeSeller
from tests.jobs.cluster import LASTING, Worker, gone, leases_over
from tests.rounds import sample_cases
from tests.support import until

# The seller carries each of these out and then hangs; the worker is killed while it waits for the answer.
TURNS = ("sync_accounts", "get_products", "create_media_buy", "get_media_buys")


def add_seller(faulty: FakeSeller, **fields: Any) -> Seller:
    seller, _ = seller_add(
        name="Faulty", url=faulty.url, protocol="mcp", token=faulty.token, allow_private=True, **fields
    )
    return seller


def submit() -> Campaign:
    advertiser = make_advertiser()
    first = timezone.localdate() + timedelta(days=20)
    brief = {
        "name": "Cold brew",
        "advertiser": advertiser.name,
        "brand_domain": advertiser.brand_domain,
        "objective": {"goal": "Reach", "kpi": "reach", "target": 1000},
        "budget": {"total": 5000, "currency": "USD"},
        "flight": {"start": f"{first}", "end": f"{first + timedelta(days=9)}", "zone": "UTC"},
        "channels": [{"channel": "display"}],
        "geography": {"countries": ["US"]},
    }
    campaign = campaign_submit(user=make_user("Buyer"), raw=brief)
    assert campaign.problems == []
    return campaign


def completed_steps() -> dict[Any, tuple[int, int]]:
    """Every completed step with its version and attempts: neither may change any more."""
    done = Step.objects.filter(status="completed")
    return {
        pk: (version, attempts) for pk, version, attempts in done.values_list("pk", "version", "attempts")
    }


def asked(seller: FakeSeller, tool: str) -> int:
    return len(seller.requests(tool))


def approve_when_asked() -> None:
    approval = until(
        lambda: Approval.objects.filter(status="open").first(), "people are asked about the deal"
    )
    approval_decide(approval_id=approval.pk, user=make_user("Approver"), verdict="approve", comment="Go")


def test_a_worker_killed_at_every_turn(
    committed_db: Database, processes: ProcessGroup, tmp_path: Path
) -> None:
    with FakeSeller(tmp_path) as faulty:
        add_seller(faulty, slots=8)
        campaign = submit()
        worker = killed_in_mid_step(campaign, committed_db, processes)
        for turn in sample_cases(TURNS, most=3):
            # Others read there too, such as reconciliation at the worker's start.
            faulty.fault(turn, "hang", times=0, seconds=120)
            if turn == "create_media_buy":
                approve_when_asked()
            calling = Operation.objects.filter(task_type=turn, status="calling_adcp")
            until(lambda turn=turn, calling=calling: calling.exists() and asked(faulty, turn), turn)
            before, out = completed_steps(), asked(faulty, turn)
            worker.kill()
            assert calling.exists()
            faulty.clear()
            leases_over()
            worker.restart()
            until(lambda turn=turn, out=out: asked(faulty, turn) > out, f"{turn} is sent again")
            assert completed_steps().items() >= before.items()
        _ends_well(campaign, faulty)


def killed_in_mid_step(campaign: Campaign, database: Database, processes: ProcessGroup) -> Worker:
    """The worker has begun to allocate, and waits for the campaign's row, when it is killed; the next one
    takes the step over."""
    allocating = Step.objects.filter(key="allocate", status="executing")
    with psycopg.connect(database.urls.app) as rival:
        rival.execute("select id from campaigns_campaign where id = %s for update", [campaign.pk])
        worker = Worker(processes, LASTING)
        until(allocating.exists, "the step is executing")
        before = completed_steps()
        assert len(before) == 1
        worker.kill()
        assert allocating.get().attempts == 1
    leases_over()
    worker.restart()
    allocated = until(Step.objects.filter(key="allocate", status="completed").first, "the step is taken over")
    assert allocated.attempts == 2
    assert WorkflowEvent.objects.filter(type="step.taken_over").count() == 1
    assert campaign.allocations.count() == 1
    assert completed_steps().items() >= before.items()
    return worker


def _ends_well(campaign: Campaign, faulty: FakeSeller) -> None:
    job = campaign_job(campaign)
    assert job is not None

    def ended() -> bool:
        return Job.objects.get(pk=job.pk).status in ("COMPLETED", "FAILED")

    until(ended, "the campaign's job ends")
    campaign.refresh_from_db()
    job.refresh_from_db()
    assert (campaign.status, job.status, job.error) == ("completed", "COMPLETED", "")
    (deal,) = Deal.objects.all()
    (bought,) = faulty.books()
    assert (deal.status, deal.media_buy_id) == ("booked", bought["media_buy_id"])
    sent = faulty.requests("create_media_buy")
    assert len(sent) == 2
    assert sent[0]["arguments"] == sent[1]["arguments"], "not the same request and key"
    completions = AuditEntry.objects.filter(entity_type="step", to_status="completed")
    assert sorted(completions.values_list("entity_id", flat=True)) == sorted(
        Step.objects.filter(status="completed").values_list("pk", flat=True)
    )
    assert not Step.objects.exclude(status="completed").exists()
    assert Operation.objects.count() == len(TURNS)
    assert all(v.ok for entity in entity_models() for _, v in verify_all(entity))


def test_asked_to_stop_in_mid_call_it_hands_back_what_it_holds(
    committed_db: Database, processes: ProcessGroup, tmp_path: Path
) -> None:
    with FakeSeller(tmp_path) as faulty:
        add_seller(faulty)
        worker = Worker(processes, {**LASTING, "DJANGO_SETTINGS_MODULE": "tests.jobs.patient"})
        worker.started()
        faulty.fault("sync_accounts", "hang", seconds=120)
        campaign = submit()
        until(lambda: asked(faulty, "sync_accounts"), "the call is out")
        everybody = worker.everybody()
        worker.main.terminate()
        assert worker.exit_code() == 0
        gone(everybody)
        assert not CallLease.objects.exists()
        assert not Step.objects.filter(status="executing").exists()
        # Nothing was lost either: the next worker goes on where this one stopped.
        worker.restart()
        approve_when_asked()
        until(lambda: Campaign.objects.get(pk=campaign.pk).status == "completed", "the campaign completes")
        assert len(faulty.books()) == 1


def test_a_purchase_left_with_the_seller_is_followed_by_the_next_worker(
    committed_db: Database, processes: ProcessGroup, tmp_path: Path
) -> None:
    with FakeSeller(tmp_path, mode="submitted") as faulty:
        add_seller(faulty)
        worker = Worker(processes, LASTING)
        campaign = submit()
        faulty.fault("get_task_status", "status", times=0, status="working")
        approve_when_asked()
        until(lambda: asked(faulty, "get_task_status"), "the seller is polled")
        worker.kill()
        faulty.clear()
        leases_over()
        worker.restart()
        until(lambda: Campaign.objects.get(pk=campaign.pk).status == "completed", "the campaign completes")
        assert len(faulty.books()) == 1
        assert asked(faulty, "create_media_buy") == 1
