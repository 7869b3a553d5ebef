"""What a seller says of itself is kept as far as it can be, and no more than anybody needs."""

from __future__ import annotations

from typing import Any

import pytest

from tasks_app.adcp.capabilities import names_kept, read_capabilities
from tasks_app.adcp.tasks import TASK_NAMES
from tasks_app.adcp.types import Capabilities, DiscoveryError
from tasks_app.sellers.models import Seller
from tests.factories import make_seller

ODD = ["a\x00b", "a\ud800b", "x" * 129, "x" * 10_000_000, ""]


def read(payload: dict[str, Any], **named: Any) -> Capabilities:
    known = {"tools": frozenset({"get_products"}), "agent_name": "A", "quirks": frozenset[str]()}
    return read_capabilities(payload, version="3.2", **{**known, **named})


@pytest.mark.django_db
def test_names_that_cannot_be_stored_are_cleaned_or_left_out() -> None:
    kept = names_kept(["get_products", *ODD])
    assert kept == {"get_products", "a\ufffdb"}
    seller = make_seller(tools=sorted(kept))
    assert Seller.objects.get(pk=seller.pk).offers("get_products")


def test_of_a_great_many_the_tasks_of_adcp_are_kept_first() -> None:
    kept = names_kept([*(f"a{n}" for n in range(5_000)), *TASK_NAMES])
    assert len(kept) == 1_000
    assert kept >= TASK_NAMES


def test_a_name_of_any_length_is_cut() -> None:
    assert len(read({}, agent_name="x" * 10_000).agent_name) == 128


def test_more_than_is_kept_of_anybody_is_refused_in_words() -> None:
    assert read({"ext": {"more": "x" * 900_000}}).raw
    with pytest.raises(DiscoveryError, match="characters of itself, more than 1,048,576"):
        read({"ext": {"more": "x" * 2**20}})
