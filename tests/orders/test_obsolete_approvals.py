"""The event bus withdraws the approvals of a deal that has moved, also one that was locked at that moment."""

from __future__ import annotations

import psycopg

from orders.questions import ask_deal
from tasks_app.approvals.models import Approval
from tasks_app.lifecycle.models import AuditEntry
from tasks_app.lifecycle.transitions import transition
from tests.database import Database
from tests.events.parts import relay
from tests.factories import make_deal, make_seller


def test_an_approval_locked_while_its_deal_ended_is_withdrawn_later(committed_db: Database) -> None:
    relay()
    over, wanted = make_deal(), make_deal(seller=make_seller(name="Fjord Video", slug="fjord-video"))
    obsolete, needed = ask_deal(over), ask_deal(wanted)
    with psycopg.connect(committed_db.urls.app) as other:
        other.execute("select 1 from tasks_app_approval where id = %s for no key update", [obsolete.pk])
        transition(over, "cancelled", actor="system", reason="Not wanted")
        other.rollback()
    relay()
    assert Approval.objects.get(pk=obsolete.pk).status == "voided"
    assert Approval.objects.get(pk=needed.pk).status == "open"
    reason = AuditEntry.objects.filter(entity_id=obsolete.pk).latest("seq").reason
    assert reason == "The deal is cancelled: Not wanted"
