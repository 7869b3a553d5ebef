"""A seller whose secrets are under a lost key: its own trouble, in words; nothing leaves without them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import Client

from orders import mirror
from tasks_app import clock
from tasks_app.adcp import client
from tasks_app.adcp.types import DiscoveryError
from tasks_app.operations import dispatch, sweep
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as S
from tasks_app.people.actors import SYSTEM
from tasks_app.reconciliation import runs
from tasks_app.sellers.headers import HEADERS_LOST
from tasks_app.sellers.models import SECRET_COLUMNS, Seller
from tasks_app.sellers.services import seller_options
from tasks_app.sellers.trust import shown
from tests.adcp.raw_server import serve
from tests.database import Database
from tests.factories import make_seller, make_user
from tests.operations.making import stand
from tests.operations.sweeping import answering
from tests.support import PATIENCE_S
from tests.ui.pages import page_of, read

LOST = "gAAAAABlost"


def lose(seller: Seller, column: str) -> Seller:
    """As it is read where the key is gone: what is stored, as it is."""
    with connection.cursor() as cursor:
        statement = f"update tasks_app_seller set {column} = '{LOST}' where id = '{seller.pk}'"
        cursor.execute("select testing.as_owner(%s)", [statement])
    return Seller.objects.get(pk=seller.pk)


@pytest.mark.parametrize("column", SECRET_COLUMNS)
def test_the_others_are_looked_at_and_looked_after_all_the_same(committed_db: Database, column: str) -> None:
    bad, well = make_seller("Bad", slots=5), make_seller("Well", slots=5)
    asked = {seller: stand(S.SUBMITTED, seller=seller, task_id=f"t-{seller.name}") for seller in (bad, well)}
    past = clock.now() - timedelta(seconds=1)
    Operation.objects.filter(pk=asked[bad].pk).update(next_poll_at=past)
    Operation.objects.filter(pk=asked[well].pk).update(next_poll_at=None, deadline_at=past)
    lose(bad, column)

    async_to_sync(sweep._Sweeper().tick)()

    assert Operation.objects.get(pk=asked[well].pk).status == S.TIMED_OUT
    Operation.objects.update(next_poll_at=past)
    assert asked[well].pk in {call.operation_id for call in dispatch.claim_polls(limit=10)}
    run = runs.run_ask(trigger="hand", actor=SYSTEM)
    assert "Well" in {one.seller.name for one in runs.run_perform(run=run, limit_s=PATIENCE_S).sellers}
    assert mirror.mirrors_refresh_due() == 0


@pytest.mark.django_db
def test_nothing_is_sent_to_a_seller_without_the_headers_it_was_given() -> None:
    with serve(answering({"status": "completed"})) as server:
        seller = lose(make_seller(url=f"{server.url}/mcp"), "secret_headers")
        endpoint = seller.endpoint(timeout_s=PATIENCE_S)
        seen = async_to_sync(client.call)(endpoint, "create_media_buy", {"brand": {}})
        with pytest.raises(DiscoveryError, match="encryption key that is lost"):
            async_to_sync(client.discover)(endpoint)
    assert server.requests == []
    assert (seen.kind, seen.request_left) == ("not_sent", False)
    assert seen.error is not None
    assert seen.error.message == HEADERS_LOST


@pytest.mark.django_db
def test_people_are_told_so_and_its_page_stands(client: Client) -> None:
    seller = lose(make_seller("Norrland Digital"), "secret_headers")
    client.force_login(make_user("Administrator", is_staff=True))
    assert "Norrland Digital" in read(client, page_of(seller))
    assert shown(seller, "secret_headers") == "under a lost key"
    assert "under a lost key" in " ".join(seller_options(seller).values())
