"""Who answers sellers, and a seller that is answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tasks_app.people.models import User
from tests.adcp.raw_server import RawServer, serve
from tests.factories import make_user
from tests.operations.pausing import answering, done, paused


@pytest.fixture
def ops() -> User:
    return make_user("Ad Ops")


@pytest.fixture
def quill() -> Iterator[RawServer]:
    """Pauses, is answered, and then has bought."""
    with serve(answering(paused(), done())) as server:
        yield server
