"""Verification of a whole database, as an operator runs it: processes, filters, memory, company."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest

from orders.models import Deal, DealStatus
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import transition
from tasks_app.lifecycle.verify import verify_all, verify_trail
from tests.audit.synthetic import fill
from tests.audit.trails import deal_with_trail, rewrite
from tests.commands.running import ROOT, call, run
from tests.database import Database
from tests.ending import ending
from tests.factories import make_deal
from tests.lifecycle.entities import make_job, make_step
from tests.lifecycle.threads import at_once
from tests.rounds import rounds

D = DealStatus
ROUNDS = rounds(10, 40)
CHAINS = rounds(5_000, 20_000)


def test_exit_codes_of_the_processes(
    superuser: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLIGHTDECK_LOG_LEVEL", "WARNING")
    deal, key, kept = deal_with_trail(), str(tmp_path / "key.pem"), str(tmp_path / "anchor.jsonl")
    public, proof = f"{key}.pub", tmp_path / "proof.json"
    with_anchor = ("--anchor", kept, "--anchor-key", public)

    assert run("verify_audit").code == 0
    made = run("audit_anchor", "--out", kept, "--key", key, "--json")
    assert made.code == 0, made.err
    assert made.json["chains"] == 1
    assert run("audit_anchor", "--out", kept, "--key", key).code == 2
    compared = run("verify_audit", *with_anchor, "--json")
    assert (compared.code, compared.json["anchor"]["compared"]) == (0, 1)
    cut = run("audit_anchor", "--proof", f"deal:{deal.reference}", "--of", kept, "--key", key)
    proof.write_text(cut.out)
    assert run("verify_audit", "--anchor", str(proof), "--anchor-key", public).code == 0
    assert run("replay", "deal", deal.reference).code == 0

    rewrite(superuser, deal, seq=2, reason="Another")
    assert run("verify_audit").code == 0
    assert run("verify_audit", *with_anchor).code == 1
    shown = run("verify_audit", "--anchor", str(proof), "--anchor-key", public, "--json")
    assert (shown.code, shown.json["problems"][0]["id"]) == (1, str(deal.pk))

    superuser.execute("update tasks_app_auditentry set reason = '' where seq = 2")
    broken = run("verify_audit")
    assert broken.code == 1
    assert f"deal {deal.pk}: entry 2: its columns differ from its bytes: reason" in broken.out
    assert run("audit_anchor", "--out", str(tmp_path / "other"), "--key", key).code == 1
    assert run("replay", "deal", deal.reference).code == 1


def test_what_makes_no_sense_is_refused(committed_db: Database, anchor_key: Path, tmp_path: Path) -> None:
    deal, kept = make_deal(), str(tmp_path / "anchor.jsonl")
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("{}")
    assert call("verify_audit", "--anchor", kept).code == 2  # no key, no file yet
    assert not anchor_key.exists()
    assert call("audit_anchor", "--out", kept).code == 0
    for arguments in (
        ("verify_audit", "--entity", "invoice"),
        ("verify_audit", "--entity", "deal:DEAL-1999-000001"),
        ("verify_audit", "--entity", "deal:019a0000-0000-7000-8000-000000000000"),
        ("verify_audit", "--since", "soon"),
        ("verify_audit", "--since", "2026-01-01", "--anchor", kept),
        ("verify_audit", "--anchor-key", f"{anchor_key}.pub"),
        ("verify_audit", "--anchor", str(nonsense)),
        ("verify_audit", "--anchor", str(tmp_path / "nowhere")),
        ("verify_audit", "--anchor", kept, "--anchor-key", kept),
        ("audit_anchor", "--proof", "deal", "--of", kept),
        ("audit_anchor", "--of", kept),
        ("audit_anchor", "--proof", f"deal:{deal.pk}", "--of", str(nonsense)),
        ("audit_anchor", "--proof", "deal:019a0000-0000-7000-8000-000000000000", "--of", kept),
        ("audit_anchor", "--out", str(tmp_path / "nowhere" / "anchor")),
    ):
        ran = call(*arguments, "--json")
        assert ran.code == 2, arguments
        assert ran.json["error"], arguments


def test_a_part_can_be_verified(superuser: psycopg.Connection) -> None:
    deal, job = deal_with_trail(), make_job()
    superuser.execute("update tasks_app_auditentry set reason = '' where entity_type = 'deal' and seq = 2")
    at = AuditEntry.objects.get(entity_type="job").at.isoformat()
    for arguments, entities, code in (
        ((), 2, 1),
        (("--entity", "deal"), 1, 1),
        (("--entity", f"deal:{deal.reference}"), 1, 1),
        (("--entity", "job"), 1, 0),
        (("--entity", f"job:{job.pk}"), 1, 0),
        (("--since", at), 1, 0),
        (("--since", "2020-01-01"), 2, 1),
        (("--since", "2999-01-01T00:00:00Z"), 0, 0),
        (("--since", at, "--entity", "deal"), 0, 0),
    ):
        ran = call("verify_audit", "--json", *arguments)
        assert (ran.json["entities"], ran.code) == (entities, code), arguments


def test_a_status_moved_without_its_entry_is_recent(superuser: psycopg.Connection) -> None:
    make_deal()
    superuser.execute(
        "update orders_deal set status = 'booked', version = 9, status_since = '2999-01-01T00:00:00Z'"
    )
    assert call("verify_audit", "--since", "2998-01-01").code == 1


def test_transitions_meanwhile_do_not_look_like_tampering(committed_db: Database) -> None:
    deal = make_deal()
    ended = threading.Event()

    def moving() -> int:
        try:
            mine = Deal.objects.get(pk=deal.pk)
            for number in range(ROUNDS):
                transition(mine, (D.NEGOTIATING, D.QUOTED)[number % 2], actor="agent:buyer")
            return mine.version
        finally:
            ended.set()

    def verifying() -> int:
        seen = 0
        while not ended.is_set():
            for found in verify_trail():
                assert found.verification.ok, found
                seen = max(seen, found.verification.entries)
        return seen

    version, seen = at_once(moving, verifying)
    assert version == ROUNDS + 1
    assert isinstance(seen, int)
    assert dict(verify_all("deal"))[deal.pk].entries == version


def test_a_run_sees_one_moment(committed_db: Database) -> None:
    deal, _ = make_deal(), make_job()
    run_ = verify_trail()
    first = next(run_)
    transition(deal, D.NEGOTIATING, actor="system")
    make_job()
    assert [found.verification.entries for found in (first, *run_)] == [1, 1]


def test_memory_does_not_grow_with_the_trail(superuser: psycopg.Connection) -> None:
    make_step()
    small = peak()
    fill(superuser, chains=CHAINS, length=10)
    assert peak() - small < 12 * 2**10


def test_one_long_chain_takes_no_more_memory(superuser: psycopg.Connection) -> None:
    make_step()
    small = peak()
    fill(superuser, chains=50, length=600)
    assert peak() - small < 12 * 2**10


def peak() -> int:
    """Kilobytes that `verify_audit` held at most, in a process of its own that found nothing wrong."""
    command = [sys.executable, "manage.py", "verify_audit"]
    with ending(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss
