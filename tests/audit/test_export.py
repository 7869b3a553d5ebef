"""A trail to take away equals what is stored, and says whether it holds."""

from __future__ import annotations

import asyncio
import base64
import csv
import hashlib
import io
import json
import uuid
from typing import Any

import psycopg
from django.db import connection
from django.test import AsyncClient, Client
from django.urls import reverse

from orders.models import Deal
from tasks_app.lifecycle.export import COLUMNS, trail_csv, trail_jsonl
from tasks_app.people.models import User
from tests.audit.trails import deal_with_trail
from tests.database import Database
from tests.factories import make_team, make_user


def lines(deal: Deal) -> list[dict[str, Any]]:
    return [json.loads(line) for line in trail_jsonl("deal", deal.pk)]


def rows(deal: Deal) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO("".join(trail_csv("deal", deal.pk)))))


def stored(deal: Deal) -> list[dict[str, Any]]:
    names = ", ".join(
        {
            "metadata": "metadata::text", "changes": "changes::text", "body": "encode(body, 'hex')",
            "prev_hash": "encode(prev_hash, 'hex')", "hash": "encode(hash, 'hex')",
            "at": "to_char(at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US') || '+00:00'",
        }.get(name, name)
        for name in COLUMNS
    )  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(
            f"select {names} from tasks_app_auditentry where entity_id = %s order by seq", [deal.pk]
        )
        return [dict(zip(COLUMNS, row, strict=True)) for row in cursor.fetchall()]


def test_json_lines_are_what_is_stored(committed_db: Database) -> None:
    deal = deal_with_trail()
    *entries, last = lines(deal)
    for entry, row in zip(entries, stored(deal), strict=True):
        told = {**entry, "body": base64.b64decode(entry["body"]).hex()}
        for name in ("metadata", "changes"):
            row[name] = json.loads(row[name])
        assert told == row
    assert last["verification"] | {"checked_at": ""} == {
        "entity_type": "deal", "entity_id": str(deal.pk), "ok": True, "entries": 3, "problem": "",
        "broken_at": 0, "head": entries[-1]["hash"], "checked_at": "",
    }  # fmt: skip


def test_its_reader_can_hash_for_himself(committed_db: Database) -> None:
    *entries, _ = lines(deal_with_trail())
    previous = ""
    for entry in entries:
        body = base64.b64decode(entry["body"])
        assert hashlib.sha256(body).hexdigest() == entry["hash"]
        assert entry["prev_hash"] == previous
        assert body.endswith(b"%d:%b," % (len(previous), previous.encode()))
        previous = entry["hash"]


def test_numbers_do_not_blur(superuser: psycopg.Connection) -> None:
    deal = deal_with_trail()
    exact = '{"cpm": 0.10000000000000000001}'
    superuser.execute("update tasks_app_auditentry set metadata = %s where seq = 2", [exact])
    assert f'"metadata": {exact}' in list(trail_jsonl("deal", deal.pk))[1]
    assert rows(deal)[1]["metadata"] == exact


def test_csv_is_what_is_stored_and_runs_no_formula(superuser: psycopg.Connection) -> None:
    deal = deal_with_trail()
    superuser.execute("update tasks_app_auditentry set reason = '=HYPERLINK(\"x\")' where seq = 2")
    superuser.execute("update tasks_app_auditentry set reason = 'a, \"b\"' || chr(10) || 'c' where seq = 3")
    *entries, last = rows(deal)
    for entry, row in zip(entries, stored(deal), strict=True):
        told = {**entry, "body": base64.b64decode(entry["body"]).hex()}
        told["reason"] = told["reason"].removeprefix("'")
        assert told == {name: str(value) for name, value in row.items()}
    assert entries[1]["reason"] == '\'=HYPERLINK("x")'
    assert last["seq"] == "verification"
    assert last["reason"] == "3 entries: does not hold: entry 2: its columns differ from its bytes: reason"


def test_a_time_beyond_all_years_is_exported_too(superuser: psycopg.Connection) -> None:
    deal = deal_with_trail()
    superuser.execute("update tasks_app_auditentry set at = 'infinity' where seq = 2")
    assert "beyond" in lines(deal)[1]["at"]
    assert not lines(deal)[-1]["verification"]["ok"]


def auditor(deal: Deal, name: str = "auditor", **fields: Any) -> User:
    user = make_user("Auditor", team=deal.team, name=name)
    User.objects.filter(pk=user.pk).update(**{"is_staff": True, **fields})
    user.refresh_from_db()
    return user


def logged_in(user: User | None) -> Client:
    client = Client()
    if user:
        client.force_login(user, backend="tasks_app.people.holders.RoleBackend")
    return client


def address(deal: Deal, form: str = "jsonl") -> str:
    return reverse(f"trail_{form}", args=["deal", deal.pk])


def read(answer: Any) -> str:
    return b"".join(answer.streaming_content).decode()


def test_the_download(committed_db: Database) -> None:
    deal = deal_with_trail()
    client = logged_in(auditor(deal))
    answer = client.get(address(deal))
    assert (answer.status_code, answer["Content-Type"]) == (200, "application/jsonl; charset=utf-8")
    assert answer["Content-Disposition"] == f'attachment; filename="deal-{deal.pk}.jsonl"'
    assert read(answer).splitlines()[:3] == [line.strip() for line in trail_jsonl("deal", deal.pk)][:3]
    table = client.get(address(deal, "csv"))
    assert table["Content-Type"] == "text/csv; charset=utf-8"
    assert read(table).splitlines()[:2] == "".join(trail_csv("deal", deal.pk)).splitlines()[:2]


def test_the_download_streams_from_the_event_loop(committed_db: Database) -> None:
    deal = deal_with_trail()
    user = auditor(deal)

    async def fetched() -> str:
        client = AsyncClient()
        await client.aforce_login(user, backend="tasks_app.people.holders.RoleBackend")
        answer = await client.get(address(deal))
        return b"".join([chunk async for chunk in answer.streaming_content]).decode()

    assert [json.loads(line) for line in asyncio.run(fetched()).splitlines()][:3] == lines(deal)[:3]


def test_who_may_not_see_it_gets_nothing(committed_db: Database) -> None:
    deal = deal_with_trail()
    ours, stranger, rightless = (auditor(deal, name) for name in ("ours", "stranger", "rightless"))
    outsider = auditor(deal, "outsider", is_staff=False)
    stranger.teams.set([make_team("Others")])
    rightless.groups.clear()
    expected = {ours: 200, stranger: 404, rightless: 403, outsider: 302, None: 302}
    for user, status in expected.items():
        assert logged_in(user).get(address(deal)).status_code == status, user
    client = logged_in(ours)
    assert client.post(address(deal)).status_code == 405
    for path in (
        f"deal/{uuid.uuid4()}/trail.csv",
        f"invoice/{deal.pk}/trail.csv",
        f"deal/{deal.pk}/trail.xml",
    ):
        assert client.get(f"/admin/audit/{path}").status_code == 404
