"""A team with an administrator and an advertiser, and a buyer's file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks_app.people.models import Advertiser, User
from tests.commands.running import Ran, call
from tests.factories import make_advertiser, make_user
from tests.legacy.buyer import Buyer

Import = Callable[..., Ran]


@pytest.fixture
def buyer(tmp_path: Path) -> Buyer:
    return Buyer(tmp_path / "ad_buyer.db")


@pytest.fixture
def admin(db: None) -> User:
    return make_user("Administrator", name="vera")


@pytest.fixture
def advertiser(db: None) -> Advertiser:
    return make_advertiser()


@pytest.fixture
def bring(buyer: Buyer, admin: User, advertiser: Advertiser) -> Import:
    """Import the buyer's file as the administrator, answering in JSON."""
    return lambda *more: call("import_ad_buyer", str(buyer.path), "--as", admin.username, "--json", *more)
