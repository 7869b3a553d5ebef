"""Trails to verify, and what somebody with every right could do to them."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from orders.models import Deal, DealStatus
from tasks_app.lifecycle.transitions import transition
from tests.factories import make_deal

D = DealStatus


def deal_with_trail(**fields: Any) -> Deal:
    """A deal of three entries, with metadata, changes and no plain ASCII alone."""
    deal = make_deal(**fields)
    transition(deal, D.NEGOTIATING, actor="agent:buyer", reason="Für zwei Köpfe", metadata={"try": 1})
    transition(deal, D.ACCEPTED, actor="system", changes={"valid_actions": {"cpm": 0.1, "note": "=1+1"}})
    return deal


def rewrite(
    admin: psycopg.Connection, deal: Deal, *, seq: int, only: bool = False, **columns: object
) -> None:
    """Change columns of one entry, then make its bytes and hash agree with it again, and every later one's
    unless it alone (`only`) is forged."""
    names = sql.SQL(", ").join(
        sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in columns
    )
    query = sql.SQL("update tasks_app_auditentry set {} where entity_id = %(id)s and seq = %(seq)s")
    admin.execute(query.format(names), {**columns, "id": deal.pk, "seq": seq})
    rehash(admin, deal, upto=seq if only else None)


def rehash(admin: psycopg.Connection, deal: Deal, *, upto: int | None = None) -> None:
    """Make the chain of a deal consistent with its columns; after entry `upto` it stays as it is."""
    with admin.cursor(row_factory=dict_row) as cursor:
        entries = cursor.execute(
            "select id from tasks_app_auditentry where entity_id = %s order by seq", [deal.pk]
        ).fetchall()
    previous = b""
    for entry in entries[:upto]:
        row = admin.execute(
            "with told as (select id, fd_body(entity_type, entity_id, seq, from_status, to_status, at, actor,"
            " reason, metadata, changes, trace_id, %(previous)s) as body"
            " from tasks_app_auditentry where id = %(id)s)"
            " update tasks_app_auditentry a"
            " set body = t.body, prev_hash = %(previous)s, hash = sha256(t.body)"
            " from told t where a.id = t.id returning a.hash",
            {"id": entry["id"], "previous": previous},
        ).fetchone()
        assert row is not None
        previous = bytes(row[0])
