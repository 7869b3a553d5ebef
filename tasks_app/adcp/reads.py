"""Further reads that are passed on for integrators, beside those we make ourselves (`requests`).

Source: AdCP 3.2 media-buy/get-media-buy-delivery-request, media-buy/list-creative-formats-request,
account/list-accounts-request.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from .requests import Account, MediaBuyStatus, NonEmpty, Pagination, _Request

Day = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]


class GetMediaBuyDelivery(_Request):
    """What was delivered. `end_date` is exclusive; days are in the products' reporting zone."""

    account: Account | None = None
    media_buy_ids: Annotated[list[NonEmpty], Field(min_length=1)] | None = None
    status_filter: Annotated[list[MediaBuyStatus], Field(min_length=1)] | None = None
    start_date: Day | None = None
    end_date: Day | None = None
    include_package_daily_breakdown: bool | None = None
    pagination: Pagination | None = None


class ListCreativeFormats(_Request):
    """Which creative formats the seller takes (deprecated in 3.2 in favour of products' own formats)."""

    format_ids: Annotated[list[dict[str, Any]], Field(min_length=1)] | None = None
    asset_types: Annotated[list[NonEmpty], Field(min_length=1)] | None = None
    max_width: int | None = None
    max_height: int | None = None
    min_width: int | None = None
    min_height: int | None = None
    is_responsive: bool | None = None
    name_search: NonEmpty | None = None
    account: Account | None = None
    pagination: Pagination | None = None


class ListAccounts(_Request):
    """One account, as the seller holds it: `account` is an exact filter."""

    account: Account | None = None
    status: (
        Literal["active", "pending_approval", "rejected", "payment_required", "suspended", "closed"] | None
    ) = None
    sandbox: bool | None = None
    pagination: Pagination | None = None
