"""No entry, no event: no transition."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DatabaseError

from campaigns.models import Campaign
from orders.models import Deal
from tasks_app.lifecycle.transitions import transition
from tests.database import Database, TestServer
from tests.events.parts import move, quoted
from tests.lifecycle.entities import make_campaign, make_job, written

_RAISE = """
create function break_it() returns trigger language plpgsql as $$ begin raise exception 'broken'; end $$;
create trigger broken before insert on {table} for each row execute function break_it();
"""
_REFUSED = r"broken|permission denied"
# The functions that write them run as the owner.
_REVOKE = "revoke insert on {table} from flightdeck_owner"


@pytest.mark.parametrize("table", ["tasks_app_outboxevent", "tasks_app_auditentry"])
@pytest.mark.parametrize("how", [_RAISE, _REVOKE], ids=["raises", "revoked"])
def test_where_entry_or_event_cannot_be_written_nothing_is(
    committed_db: Database, database_server: TestServer, table: str, how: str
) -> None:
    deal = quoted()
    before, counts = _stored(deal), written()
    campaigns = Campaign.objects.count()
    with database_server.connect_admin(committed_db.name) as admin:
        admin.execute(how.format(table=table))

    with pytest.raises(DatabaseError, match=_REFUSED):
        transition(deal, "negotiating", actor="system", reason="A test", changes={"media_buy_id": "mb-1"})
    with pytest.raises(DatabaseError, match=_REFUSED):
        make_campaign()
    with pytest.raises(DatabaseError, match=_REFUSED):
        make_job()

    assert (_stored(deal), written(), Campaign.objects.count()) == (before, counts, campaigns)
    assert (deal.status, deal.version) == ("quoted", 1), "the instance says what the row says"


def test_once_it_can_be_written_the_same_transition_succeeds(
    committed_db: Database, database_server: TestServer
) -> None:
    deal = quoted()
    with database_server.connect_admin(committed_db.name) as admin:
        admin.execute(_RAISE.format(table="tasks_app_outboxevent"))
        with pytest.raises(DatabaseError, match="broken"):
            move(deal)
        admin.execute("drop trigger broken on tasks_app_outboxevent")
    move(deal)
    assert (deal.status, deal.version) == ("negotiating", 2)


def _stored(deal: Deal) -> dict[str, Any]:
    return dict(Deal.objects.filter(pk=deal.pk).values().get())
