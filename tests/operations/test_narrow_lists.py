"""A list that a seller narrows where it is not told what of: its refusal is the answer, and ends nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from orders.reconcile import ALL_STATUSES
from tasks_app.adcp.optional import OMIT, OPTIONAL, Lesson
from tasks_app.adcp.tasks import LIST_TOOL_NAMES
from tasks_app.operations.line import UnreadableError, line_to
from tasks_app.operations.lookup import look_up, lookup_of
from tasks_app.operations.models import OperationStatus as S
from tasks_app.sellers.models import Seller
from tests.adcp.raw_server import serve
from tests.factories import make_seller
from tests.operations.making import see, silent, stand
from tests.operations.sweeping import shop

pytestmark = [pytest.mark.deep, pytest.mark.django_db]
Told = dict[str, Any]
FILTER = "status_filter"
QUIRK = Lesson(verb=OMIT, tool="get_media_buys", argument=FILTER).quirk
REFUSALS: dict[str, Told] = {
    "one of its values": {"message": "not a status", "field": f"{FILTER}[3]"},
    "in words": {"message": f"{FILTER} value pending_start is not supported"},
    "as unknown": {"message": f"unexpected keyword argument '{FILTER}'"},
}
PER_PAGE = 2


def refused(**told: Any) -> Told:
    return {"status": "failed", "errors": [{"code": "VALIDATION_ERROR", **told}]}


def buys_of(*buys: Told, refuses: Told | None = None) -> Callable[[Told], Told]:
    """get_media_buys as the specification has it: by ids all of them, else those in `status_filter`, and the
    active ones alone without it. `refuses`: the refusal of any filter by status."""

    def answer(asked: Told) -> Told:
        if refuses is not None and FILTER in asked:
            return refused(**refuses)
        wanted, ids = asked.get(FILTER, ["active"]), asked.get("media_buy_ids")
        shown = [b for b in buys if (b["media_buy_id"] in ids if ids else b["status"] in wanted)]
        return {"status": "completed", "media_buys": shown, "pagination": {"has_more": False}}

    return answer


@pytest.mark.parametrize("quirks", [[], [QUIRK]], ids=["unlearned", "learned before"])
@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_purchase_is_never_looked_up_in_vain_by_a_narrower_list(refusal: str, quirks: list[str]) -> None:
    """Not found, it would be sent again, or a person be told that the seller has nothing."""
    with serve(shop(get_media_buys=buys_of(refuses=REFUSALS[refusal]))) as server:
        seller = make_seller(
            url=f"{server.url}/mcp", tools=["create_media_buy", "get_media_buys"], quirks=quirks
        )
        operation = stand(S.CALLING_ADCP, seller=seller, subject_type="deal")
        see(operation, silent())
        seen = asyncio.run(look_up(lookup_of(operation)))
    assert (seen.kind, seen.raw_status) == ("no_answer", None)


@pytest.mark.parametrize("quirks", [[], [QUIRK]], ids=["unlearned", "learned before"])
@pytest.mark.parametrize("refusal", REFUSALS)
def test_what_is_asked_for_by_its_id_is_told_of_in_any_status(refusal: str, quirks: list[str]) -> None:
    buy = {"media_buy_id": "mb-7", "status": "pending_start"}
    with serve(shop(get_media_buys=buys_of(buy, refuses=REFUSALS[refusal]))) as server:
        seller = make_seller(url=f"{server.url}/mcp", quirks=quirks)
        asked = {"media_buy_ids": ["mb-7"], FILTER: ALL_STATUSES}
        assert listed(seller, "get_media_buys", asked, "media_buys") == [buy]


def listed(seller: Seller, tool: str, asked: Told, name: str) -> list[Told]:
    """All rows of the list, or UnreadableError."""

    async def rows() -> list[Told]:
        return [row async for page in line_to(seller).rows(tool, asked, listed=name) for row in page]

    found: list[Told] = async_to_sync(rows)()
    return found


# Every list that is read, by the tool: what is asked of it, and its rows.
LISTS: dict[str, tuple[Told, str, list[Told]]] = {
    "get_media_buys": (
        {FILTER: ALL_STATUSES, "account": {"account_id": "a"}},
        "media_buys",
        [{"media_buy_id": f"mb-{status}", "status": status} for status in ALL_STATUSES],
    ),
    **{
        tool: (
            {"filters": {"statuses": ["submitted", "working"]}, "account": {"account_id": "a"}},
            "tasks",
            [
                {"task_id": f"t-{n}", "status": status}
                for n, status in enumerate(["submitted", "working"] * 3)
            ],
        )
        for tool in LIST_TOOL_NAMES
    },
    "list_accounts": ({}, "accounts", [{"account_id": f"a-{n}", "status": "active"} for n in range(5)]),
    "list_creative_formats": ({}, "formats", [{"format_id": f"f-{n}"} for n in range(5)]),
}


def pages(tool: str, argument: str) -> Callable[[Told], Told]:
    """A list that refuses one argument: in pages of two where nothing else is asked for, and of the active
    media buys alone where no status is named."""
    _, name, rows = LISTS[tool]

    def answer(asked: Told) -> Told:
        if argument in asked:
            return refused(message=f"{argument} is not supported", field=argument)
        shown = rows
        if name == "media_buys" and not asked.get("media_buy_ids"):
            shown = [row for row in rows if row["status"] in asked.get(FILTER, ["active"])]
        page = asked.get("pagination", {})
        begins, size = int(page.get("cursor", 0)), page.get("max_results", PER_PAGE)
        ends = begins + size
        more = {"has_more": True, "cursor": str(ends)} if ends < len(shown) else {"has_more": False}
        return {"status": "completed", name: shown[begins:ends], "pagination": more}

    return answer


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize(
    ("tool", "argument"), [(tool, name) for tool in LISTS for name in sorted(OPTIONAL[tool])]
)
def test_a_list_is_whole_or_not_read_whatever_its_seller_refuses(
    tool: str, argument: str, learned: bool
) -> None:
    asked, name, rows = LISTS[tool]
    quirks = [Lesson(verb=OMIT, tool=tool, argument=argument).quirk] if learned else []
    with serve(shop(**{tool: pages(tool, argument)})) as server:
        seller = make_seller(url=f"{server.url}/mcp", quirks=quirks, tools=[tool])
        try:
            found = listed(seller, tool, asked, name)
        except UnreadableError:
            assert argument in (FILTER, "pagination"), "of the others the question is the same without"
            return
    assert found == rows


def test_every_list_that_may_be_asked_otherwise_is_tried() -> None:
    single = {"get_adcp_capabilities", "get_products", "get_media_buy_delivery"}
    single |= {tool for tool in OPTIONAL if "include_result" in OPTIONAL[tool]}
    assert LISTS.keys() == OPTIONAL.keys() - single
