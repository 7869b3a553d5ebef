"""What a call came to by its seller’s lists, where they came in part: what is surely its own, and lives."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from tasks_app.operations.lookup import SEVERAL, look_up, lookup_of
from tasks_app.operations.models import OperationStatus as S
from tests.adcp.raw_server import serve
from tests.factories import make_seller
from tests.operations.making import see, silent, stand
from tests.operations.sweeping import shop
from tests.operations.test_lists_in_part import DOWN, ERRORS, Told
from tests.operations.test_narrow_lists import refused

pytestmark = [pytest.mark.deep, pytest.mark.django_db]


@pytest.mark.parametrize("errors", ERRORS)
@pytest.mark.parametrize(("tool", "listed_as"), [("get_media_buys", "media_buys"), ("list_tasks", "tasks")])
def test_nothing_is_looked_up_in_vain_by_a_list_that_came_with_an_error(
    tool: str, listed_as: str, errors: str
) -> None:
    told = {"status": "completed", listed_as: [], "errors": ERRORS[errors]}
    with serve(shop(**{tool: told})) as server:
        seller = make_seller(url=f"{server.url}/mcp", tools=["create_media_buy", tool])
        operation = stand(S.CALLING_ADCP, seller=seller, subject_type="deal")
        see(operation, silent())
        seen = asyncio.run(look_up(lookup_of(operation)))
    assert (seen.kind, seen.raw_status) == ("no_answer", None)
    assert "half of the shards are down" in (seen.message or "")


def test_a_media_buy_that_is_listed_beside_an_error_is_the_one_that_was_looked_for() -> None:
    told: Told = {"status": "completed", "errors": [DOWN]}
    listed_too = {"list_tasks": {"status": "completed", "tasks": [], "errors": [DOWN]}}
    with serve(shop(get_media_buys=told, **listed_too)) as server:
        tools = ["create_media_buy", "get_media_buys", "list_tasks"]
        operation = stand(S.CALLING_ADCP, seller=make_seller(url=f"{server.url}/mcp", tools=tools))
        see(operation, silent())
        ours = {"media_buy_id": "mb-7", "context": {"operation_id": str(operation.pk)}}
        told["media_buys"] = [ours | {"status": "rejected"}]
        nothing = asyncio.run(look_up(lookup_of(operation)))
        told["media_buys"] = [ours | {"status": "active"}]
        bought = asyncio.run(look_up(lookup_of(operation)))
        told |= {"media_buys": [ours | {"status": "rejected"}], "errors": []}
        rejected = asyncio.run(look_up(lookup_of(operation)))
    assert rejected.kind == "no_answer", "its task may be in the other list, which is not whole"
    assert nothing.kind == "no_answer", "another may live that is not listed"
    assert (bought.kind, (bought.payload or {}).get("media_buy_id")) == ("answer", "mb-7")


# What names a task ours, its status, and whether it is taken for the answer from a list in part.
TASKS = {
    "by our id": ("operation_id", "working", True),
    "by our id, and it failed": ("operation_id", "failed", False),
    "by its subject": ("deal_id", "working", True),
    "by its subject, and it failed": ("deal_id", "failed", False),
}


@pytest.mark.parametrize("case", TASKS)
def test_a_task_that_is_listed_beside_an_error_is_the_one_that_was_looked_for(case: str) -> None:
    name, status, is_taken = TASKS[case]
    told: Told = {"status": "completed", "errors": [DOWN]}
    with serve(shop(list_tasks=told)) as server:
        seller = make_seller(url=f"{server.url}/mcp", tools=["create_media_buy", "list_tasks"])
        operation = stand(S.CALLING_ADCP, seller=seller, subject_type="deal", subject_id=uuid.uuid4())
        see(operation, silent())
        ids = {"operation_id": str(operation.pk), "deal_id": str(operation.subject_id)}
        told["tasks"] = [{"task_id": "t-1", "status": status, "context": {name: ids[name]}}]
        seen = asyncio.run(look_up(lookup_of(operation)))
    assert (seen.kind, seen.task_id) == (("answer", "t-1") if is_taken else ("no_answer", None))


def test_of_the_tasks_with_our_ids_the_one_that_lives_is_the_calls() -> None:
    """A seller that refuses the same bytes as a duplicate has two: what came to nothing says nothing."""
    told: Told = {"status": "completed"}
    with serve(shop(list_tasks=told)) as server:
        seller = make_seller(url=f"{server.url}/mcp", tools=["create_media_buy", "list_tasks"])
        operation = stand(S.CALLING_ADCP, seller=seller, subject_type="deal", subject_id=uuid.uuid4())
        see(operation, silent())
        ours = {"context": {"operation_id": str(operation.pk)}}
        told["tasks"] = [
            {"task_id": "t-2", "status": "failed"} | ours,
            {"task_id": "t-1", "status": "working"} | ours,
        ]
        lives = asyncio.run(look_up(lookup_of(operation)))
        told["tasks"][0]["status"] = "submitted"
        both = asyncio.run(look_up(lookup_of(operation)))
        told["tasks"] = [{"task_id": "t-2", "status": "failed"} | ours]
        failed = asyncio.run(look_up(lookup_of(operation)))
    assert (lives.task_id, both.raw_status, failed.status) == ("t-1", SEVERAL, "failed")


def test_a_task_that_was_shown_is_found_although_a_later_page_is_refused() -> None:
    def tasks(asked: Told) -> Told:
        if asked.get("pagination", {}).get("cursor"):
            return refused(message="this cursor has expired")
        shown = [{"task_id": "t-1", "status": "working", "context": context}]
        return {"status": "completed", "tasks": shown, "pagination": {"has_more": True, "cursor": "2"}}

    with serve(shop(list_tasks=tasks)) as server:
        seller = make_seller(url=f"{server.url}/mcp", tools=["create_media_buy", "list_tasks"])
        operation = stand(S.CALLING_ADCP, seller=seller, subject_type="deal", subject_id=uuid.uuid4())
        see(operation, silent())
        context = {"operation_id": str(operation.pk)}
        named = asyncio.run(look_up(lookup_of(operation)))
        context = {"deal_id": str(operation.subject_id)}
        likely = asyncio.run(look_up(lookup_of(operation)))
    assert (named.task_id, likely.kind) == ("t-1", "no_answer")


def test_of_two_tasks_of_the_same_subject_neither_is_the_calls_for_its_state() -> None:
    told: Told = {"status": "completed"}
    with serve(shop(list_tasks=told)) as server:
        seller = make_seller(url=f"{server.url}/mcp", tools=["create_media_buy", "list_tasks"])
        operation = stand(S.CALLING_ADCP, seller=seller, subject_type="deal", subject_id=uuid.uuid4())
        see(operation, silent())
        ours = {"context": {"deal_id": str(operation.subject_id)}}
        told["tasks"] = [{"task_id": f"t-{word}", "status": word} | ours for word in ("working", "failed")]
        seen = asyncio.run(look_up(lookup_of(operation)))
    assert seen.raw_status == SEVERAL
