"""Reads of the books as AdCP lists them: media buys, tasks, one task; pages with a cursor.

Source: AdCP `media-buy/get-media-buys-*.json`, `protocol/get-task-status-*.json`,
`protocol/list-tasks-*.json`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from demo.sellers import clock
from demo.sellers.accounts import account_resolve
from demo.sellers.books import Books
from demo.sellers.catalogue import House
from demo.sellers.desk import buy_record
from demo.sellers.refusal import refuse

_PROTOCOL = "media-buy"


def page(rows: list[Any], request: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The asked-for slice and its `pagination` answer; the cursor is the position it starts at.

    Raises:
        AdcpError: INVALID_REQUEST, for a cursor that this seller never gave.
    """
    pagination = request.get("pagination") or {}
    size = pagination.get("max_results", 50)
    cursor = pagination.get("cursor") or "0"
    if not (cursor.isascii() and cursor.isdigit()):
        raise refuse("INVALID_REQUEST", "Unknown cursor.", field="pagination.cursor")
    start = int(cursor)
    answer: dict[str, Any] = {"has_more": start + size < len(rows), "total_count": len(rows)}
    if answer["has_more"]:
        answer["cursor"] = str(start + size)
    return rows[start : start + size], answer


def media_buys(house: House, books: Books, request: dict[str, Any]) -> dict[str, Any]:
    """Answer get_media_buys; without ids and without a filter only active buys, as the schema says."""
    records = [buy_record(buy) for buy in books.buys()]
    if "account" in request:
        account_id = account_resolve(books, house, request["account"])["account_id"]
        records = [r for r in records if r["account"]["account_id"] == account_id]
    ids = request.get("media_buy_ids")
    wanted = request.get("status_filter") or (None if ids else ["active"])
    if isinstance(wanted, str):
        wanted = [wanted]
    if ids:
        records = [r for r in records if r["media_buy_id"] in ids]
    if wanted:
        records = [r for r in records if r["status"] in wanted]
    shown, pagination = page(records, request)
    return {"media_buys": shown, "pagination": pagination}


def task_status(house: House, books: Books, request: dict[str, Any]) -> dict[str, Any]:
    """Answer get_task_status, with the result when `include_result` asks for it.

    Raises:
        AdcpError: REFERENCE_NOT_FOUND, for a task that is not this account's.
    """
    task = books.task(request["task_id"])
    account = request.get("account")
    if task and account and account_resolve(books, house, account)["account_id"] != task["account_id"]:
        task = None
    if task is None:
        raise refuse("REFERENCE_NOT_FOUND", "No such task.", field="task_id")
    answer = {
        **_task_head(task),
        "protocol": _PROTOCOL,
        "message": task["message"],
    }
    if task.get("progress"):
        answer["progress"] = task["progress"]
    if request.get("include_result") and "result" in task:
        answer["result"] = task["result"]
    return answer


def _task_head(task: dict[str, Any]) -> dict[str, Any]:
    names = ("task_id", "task_type", "status", "created_at", "updated_at", "completed_at")
    return {name: task[name] for name in names if name in task} | {"has_webhook": bool(task.get("push"))}


def tasks(house: House, books: Books, request: dict[str, Any]) -> dict[str, Any]:
    """Answer list_tasks: filters, order, pages; an item says `domain` where a single task says `protocol`."""
    rows = books.tasks()
    if "account" in request:
        account_id = account_resolve(books, house, request["account"])["account_id"]
        rows = [t for t in rows if t["account_id"] == account_id]
    filters = request.get("filters") or {}
    rows = [t for t in rows if _matches(t, filters)]
    sort = request.get("sort") or {}
    field, direction = sort.get("field", "created_at"), sort.get("direction", "desc")
    rows.sort(key=lambda t: str(t.get(field, _PROTOCOL)), reverse=direction == "desc")
    shown, pagination = page(rows, request)
    return {
        "query_summary": {
            "total_matching": len(rows),
            "returned": len(shown),
            "domain_breakdown": {_PROTOCOL: len(rows)},
            "status_breakdown": dict(Counter(t["status"] for t in rows)),
            "filters_applied": sorted(filters),
            "sort_applied": {"field": field, "direction": direction},
        },
        "tasks": [{**_task_head(t), "domain": _PROTOCOL} for t in shown],
        "pagination": pagination,
    }


def _matches(task: dict[str, Any], filters: dict[str, Any]) -> bool:
    return all(
        (
            _among(task["status"], filters, "status", "statuses"),
            _among(task["task_type"], filters, "task_type", "task_types"),
            _among(_PROTOCOL, filters, "protocol", "protocols"),
            _among(task["task_id"], filters, "", "task_ids"),
            filters.get("has_webhook") in (None, bool(task.get("push"))),
            _between(task["created_at"], filters.get("created_after"), filters.get("created_before")),
            _between(task["updated_at"], filters.get("updated_after"), filters.get("updated_before")),
            filters.get("context_contains", "") in str(task.get("context") or "") + task["media_buy_id"],
        )
    )


def _among(value: str, filters: dict[str, Any], one: str, many: str) -> bool:
    return filters.get(one) in (None, value) and (not filters.get(many) or value in filters[many])


def _between(text: str, after: str | None, before: str | None) -> bool:
    moment = clock.parse(text)
    return (after is None or moment > clock.parse(after)) and (before is None or moment < clock.parse(before))
