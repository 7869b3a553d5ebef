"""What the application's role may write in this storey's tables, and which owner's functions it calls."""

from __future__ import annotations

from tasks_app.database_rights import May, lifecycle_doors
from tasks_app.role_rights import LOCKED

TABLES: dict[str, May] = {
    "orders_deal": May(
        insert="a deal, with its first entry",
        update=f"the mirror: what the seller says of its media buy; {LOCKED}",
        columns=(
            "version",
            "media_buy_id",
            "media_buy_status",
            "revision",
            "valid_actions",
            "confirmed_at",
            "creative_deadline",
            "confirmed_gross",
            "as_of",
        ),
    ),
    "orders_dealline": May(
        insert="a line, in the transaction of its deal (a later one is refused)",
        update="what the seller confirmed, beside what was approved",
        columns=(
            "package_id",
            "confirmed_product_id",
            "confirmed_pricing_option_id",
            "confirmed_budget",
            "confirmed_rate",
            "confirmed_start_at",
            "confirmed_end_at",
            "confirmed_targeting",
            "confirmed_paused",
            "confirmed_canceled",
        ),
    ),
    "orders_dealmirror": May(
        insert="a media buy is read again and again",
        update="when, and how it went",
    ),
    "orders_change": May(
        insert="a change of a media buy is asked for",
        update="the operation that sends it, what it reserves, and its outcome",
        columns=("operation_id", "reserved", "closed_at", "outcome"),
    ),
    "orders_unclaimedbuy": May(
        insert="a media buy that no deal holds",
        update="what the seller states of it, its cancellation, and its outcome",
        columns=(
            "media_buy_id",
            "record",
            "amount",
            "cancellation_id",
            "not_cancelled",
            "closed_at",
            "outcome",
        ),
    ),
    "orders_requestkey": May(insert="an integrator's key"),
}

DOORS: dict[str, str] = {
    **lifecycle_doors("deal"),
    "fd_deal_amend": "what is approved of a deal's lines, with an entry of the deal",
}
