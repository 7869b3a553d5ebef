"""A seller to talk to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks_app.sellers.models import Seller
from tests.database import Database
from tests.factories import make_seller
from tests.fake_seller.driver import FakeSeller


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[FakeSeller]:
    with FakeSeller(tmp_path) as seller:
        yield seller


@pytest.fixture
def seller(committed_db: Database, faulty: FakeSeller) -> Seller:
    return make_seller("Faulty", url=faulty.url, token=faulty.token)
