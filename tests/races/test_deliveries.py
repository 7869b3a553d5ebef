"""One delivery key at two web processes at the same moment, over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from config.processes import ProcessGroup
from demo.ports import free_port
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tasks_app.webhooks.models import WebhookDelivery
from tests.commands.running import ROOT
from tests.database import Database
from tests.operations.making import fresh, stand
from tests.races.conftest import Races, outcomes
from tests.races.racer import Post
from tests.races.sights import BOUGHT, OTHER, webhook
from tests.rounds import rounds
from tests.support import PATIENCE_S, until

KEY = "whk-one-delivery-key"
ROUNDS = rounds(3, 6)


class Web:
    """Two processes that take webhooks, and senders that do not wait for each other."""

    def __init__(self, ports: list[int]) -> None:
        self._ports = ports
        self.senders = ThreadPoolExecutor(8)

    def send(self, process: int, post: Post) -> requests.Response:
        url = f"http://127.0.0.1:{self._ports[process]}/webhooks/adcp/{post.seller}/"
        headers = {"Content-Type": "application/json", **post.headers}
        return requests.post(url, data=post.body, headers=headers, timeout=PATIENCE_S)

    def answer(self) -> bool:
        try:
            urls = [f"http://127.0.0.1:{port}/webhooks/adcp/nobody/" for port in self._ports]
            return all(requests.get(url, timeout=PATIENCE_S).status_code == 405 for url in urls)
        except requests.ConnectionError:
            return False


@pytest.fixture
def web(races: Races, committed_db: Database, processes: ProcessGroup) -> Iterator[Web]:
    ports = []
    for name in ("one", "two"):
        ports.append(free_port())
        command = [sys.executable, "-m", "config.web", "--port", str(ports[-1])]
        processes.start(name, command, cwd=ROOT)
    started = Web(ports)
    until(started.answer, "both web processes answer")
    with started.senders:
        yield started


def test_the_same_key_and_payload_while_the_first_copy_is_active(
    races: Races, web: Web, norrland: Seller
) -> None:
    operation = stand(S.WORKING, seller=norrland)
    post = webhook(operation, idempotency_key=KEY)
    with races.held(operation) as waiting:
        first = web.senders.submit(web.send, 0, post)
        until(lambda: waiting() == 1, "the first copy is being processed")
        second = web.senders.submit(web.send, 1, post)
        until(lambda: second.done() or waiting() == 2, "the twin is refused for now, or waits")
        assert not first.done()
        # What was answered before the first was durable says: come again.
        assert not second.done() or second.result().status_code == 503

    assert first.result().status_code == 200
    assert second.result().status_code in (200, 503)
    assert web.send(1, post).json() == {"status": "duplicate"}
    assert outcomes(operation) == ["applied"]
    assert fresh(operation).published_at is not None
    bound = WebhookDelivery.objects.filter(key=KEY, verdict="applied")
    assert bound.count() == 1


def test_the_same_key_and_another_payload(races: Races, web: Web, norrland: Seller) -> None:
    """Whichever came first binds the key; the other never has an effect, also when it is sent again."""
    for number in range(ROUNDS):
        operation = stand(S.WORKING, seller=norrland, task_id=f"task-{number}")
        key = f"{KEY}-{number}"
        rivals = [webhook(operation, one, idempotency_key=key) for one in (BOUGHT, OTHER)]
        answers = [web.senders.submit(web.send, n, post) for n, post in enumerate(rivals)]
        told = [answer.result() for answer in answers]

        # The loser may be told to come again while the winner is active, and is then refused for good.
        assert sorted(one.status_code for one in told) in ([200, 409], [200, 503])
        winner = 0 if told[0].status_code == 200 else 1
        again = web.send(winner, rivals[1 - winner])
        assert (again.status_code, again.json()) == (409, {"error": "key_conflict"})
        assert fresh(operation).result == (BOUGHT, OTHER)[winner]
        assert outcomes(operation) == ["applied"]
        assert web.send(1 - winner, rivals[winner]).json() == {"status": "duplicate"}
