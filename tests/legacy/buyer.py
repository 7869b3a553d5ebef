"""A SQLite file of the shape that the reference buyer writes, filled as a test wants."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

# Column and declared type, by table: what is read, and a few that have no counterpart.
SHAPE: dict[str, str] = {
    "schema_version": "version integer primary key, applied_at text not null",
    "deals": (
        "id text primary key, seller_url text not null, seller_deal_id text, product_id text not null, "
        "product_name text not null default '', deal_type text not null default 'PD', "
        "status text not null default 'draft', price real, original_price real, impressions integer, "
        "flight_start text, flight_end text, buyer_context text, metadata text default '{}', "
        "created_at text not null, updated_at text not null, display_name text, seller_org text, "
        "seller_domain text, price_model text, bid_floor_cpm real, fixed_price_cpm real, cpp real, "
        "guaranteed_grps real, currency text default 'USD', media_type text"
    ),
    "booking_records": (
        "id integer primary key autoincrement, deal_id text not null references deals(id), order_id text, "
        "line_id text, channel text not null default '', impressions integer not null default 0, "
        "cost real not null default 0.0, booking_status text not null default 'pending', "
        "unique(deal_id, line_id)"
    ),
    "portfolio_metadata": (
        "id integer primary key autoincrement, deal_id text not null, import_source text, tags text, "
        "advertiser_id text, agency_id text"
    ),
    "status_transitions": (
        "id integer primary key autoincrement, entity_type text not null, entity_id text not null, "
        "from_status text, to_status text not null, triggered_by text default 'system', "
        "notes text default '', created_at text not null default '2026-05-01T10:00:00.000Z'"
    ),
    "campaigns": (
        "campaign_id text primary key, advertiser_id text not null, campaign_name text not null, "
        "status text not null default 'DRAFT', total_budget real not null, "
        "currency text not null default 'USD', flight_start text not null, flight_end text not null, "
        "channels text default '[]', created_at text not null, updated_at text not null"
    ),
    "campaign_events": (
        "event_id text primary key, campaign_id text not null, event_type text not null, "
        "timestamp text not null, from_status text, to_status text, payload text default '{}'"
    ),
    "jobs": (
        "id text primary key, status text not null default 'pending', progress real not null default 0.0, "
        "brief text not null default '{}', auto_approve integer not null default 0, "
        "budget_allocs text default '{}', errors text default '[]', "
        "created_at text not null, updated_at text not null"
    ),
    "negotiation_rounds": (
        "id integer primary key autoincrement, deal_id text not null, proposal_id text not null, "
        "round_number integer not null, buyer_price real not null, seller_price real not null, "
        "action text not null"
    ),
    "deal_activations": "id integer primary key autoincrement, deal_id text not null, platform text",
}
# A database of the first schema version: deals without prices' currency and all that came later.
FIRST_DEALS = SHAPE["deals"].split(", display_name")[0]
MOMENT = "2026-05-01T10:00:00.000000Z"


class Buyer:
    """The file at `path`; what is added is committed."""

    def __init__(self, path: Path, *, without: tuple[str, ...] = (), **shape: str) -> None:
        self.path = path
        shapes = {**SHAPE, **shape}
        self.sql(
            *(f"create table {name} ({columns})" for name, columns in shapes.items() if name not in without)
        )

    def sql(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    def add(self, table: str, **values: Any) -> None:
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.execute(f"insert into {table} ({names}) values ({marks})", list(values.values()))

    def deal(
        self, legacy_id: str = "deal-1", *history: str, advertiser: str = "Lindqvist Coffee", **more: Any
    ) -> None:
        """A deal that is whole. `history`: its statuses in order, the last of which it has, unless told."""
        values = {
            "id": legacy_id,
            "seller_url": "https://norrland.example.com/mcp",
            "product_id": "prod-olv",
            "product_name": "Pre-roll, news",
            "status": history[-1] if history else "quoted",
            "price": 14.2,
            "impressions": 1_000_000,
            "flight_start": "2026-06-01",
            "flight_end": "2026-06-30",
            "created_at": MOMENT,
            "updated_at": MOMENT,
            **more,
        }
        self.add("deals", **values)
        if advertiser:
            self.add("portfolio_metadata", deal_id=legacy_id, advertiser_id=advertiser)
        self.history("deal", legacy_id, *history)

    def history(self, kind: str, legacy_id: str, *statuses: str | None, triggered_by: str = "agent") -> None:
        for before, after in zip((None, *statuses), statuses, strict=False):
            self.add(
                "status_transitions",
                entity_type=kind,
                entity_id=legacy_id,
                from_status=before,
                to_status=after,
                triggered_by="system" if before is None else triggered_by,
                notes=f"to {after}",
            )

    def campaign(self, legacy_id: str = "camp-1", **more: Any) -> None:
        values = {
            "campaign_id": legacy_id,
            "advertiser_id": "Lindqvist Coffee",
            "campaign_name": "Autumn roast",
            "status": "completed",
            "total_budget": 250_000.5,
            "flight_start": "2026-06-01",
            "flight_end": "2026-06-30",
            "created_at": MOMENT,
            "updated_at": MOMENT,
            **more,
        }
        self.add("campaigns", **values)

    def job(self, legacy_id: str = "job-1", **more: Any) -> None:
        brief = (
            '{"name": "Spring", "objectives": ["reach"], "budget": 1000.25, "start_date": "2026-06-01", '
            '"end_date": "2026-06-30"}'
        )
        values = {
            "id": legacy_id,
            "status": "failed",
            "brief": brief,
            "created_at": MOMENT,
            "updated_at": MOMENT,
        }
        self.add("jobs", **{**values, **more})
