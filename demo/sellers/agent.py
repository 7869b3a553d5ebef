"""A seller's agent: the AdCP tasks it answers, on the `adcp` package's handler.

`params` is the request as a plain dict. The package validates requests and answers against the bundled
schemas, echoes `context`, and turns `AdcpError` into either transport's error; the rules are in `desk.py`,
`changes.py`, `reading.py`, `offers.py`.
"""

from __future__ import annotations

from typing import Any

from adcp.server import ADCPHandler, ToolContext, capabilities_response, sync_accounts_response
from adcp.server.idempotency import IdempotencyStore

from demo.sellers import reading
from demo.sellers.accounts import account_open, account_resolve, accounts_sync
from demo.sellers.books import Books
from demo.sellers.catalogue import House
from demo.sellers.changes import buy_change
from demo.sellers.desk import Desk
from demo.sellers.offers import search
from demo.sellers.post import Post
from demo.sellers.refusal import refuse

#: Releases this seller answers in; the buyer pins one.
VERSIONS = ("3.1", "3.2")
#: Creatives are described by `format_options` alone, in 3.1 too (the package asks, release by release).
_FEATURES = {
    "canonical_creatives": True,
    "inline_creative_management": False,
    "property_list_filtering": False,
}
#: The package's least promise for 3.2: a webhook may be repeated for a day.
_RETRY_HORIZON_SECONDS = 86_400


class SellerAgent(ADCPHandler[ToolContext]):
    """The AdCP surface of one house. `origin` is where its keys are published, like `http://127.0.0.1:9001`."""

    adcp_capabilities = {"media_buy": {"features": _FEATURES}}
    advertised_tools = {
        "get_adcp_capabilities",
        "get_products",
        "list_accounts",
        "sync_accounts",
        "create_media_buy",
        "update_media_buy",
        "get_media_buys",
        "get_task_status",
        "list_tasks",
    }

    def __init__(
        self, house: House, books: Books, desk: Desk, post: Post, replays: IdempotencyStore, *, origin: str
    ) -> None:
        super().__init__()
        self._house = house
        self._books = books
        self._desk = desk
        self._post = post
        self._replays = replays
        self._origin = origin
        # Bound here because the store belongs to this seller's books, not to the class.
        self._book_once = replays.wrap(self._book)
        self._change_once = replays.wrap(self._change)
        self._sync_once = replays.wrap(self._sync)

    async def get_adcp_capabilities(self, params: Any, context: ToolContext | None = None) -> Any:
        house = self._house
        models = sorted({price.model for product in house.products for price in product.prices})
        answer = capabilities_response(
            ["media_buy"], supported_versions=list(VERSIONS), idempotency=self._replays.capability()
        )
        answer["account"] = {
            "require_operator_auth": False,
            "supported_billing": ["operator", "agent"],
            "supported_account_currency_modes": ["per_media_buy"],
            "timezone": {"mode": "seller_fixed", "fixed_timezone": house.timezone},
            "required_for_products": False,
            "sandbox": True,
        }
        answer["media_buy"] = {
            "supported_pricing_models": models,
            "buying_modes": ["brief", "wholesale"],
            "supports_proposals": False,
            "features": dict(_FEATURES),
            "execution": {"targeting": {"geo_countries": True, "geo_regions": True}},
            "portfolio": {
                "publisher_domains": sorted({product.domain for product in house.products}),
                "primary_channels": sorted({product.channel for product in house.products}),
                "primary_countries": sorted({c for product in house.products for c in product.countries}),
                "description": f"{house.name}: {', '.join(product.name for product in house.products)}.",
            },
        }
        answer["webhook_signing"] = self._signing()
        if house.webhooks == "rfc9421":
            answer["identity"] = {"key_origins": {"webhook_signing": self._origin}}
        return answer

    def _signing(self) -> dict[str, Any]:
        if self._house.webhooks == "rfc9421":
            return {
                "supported": True,
                "profile": "adcp/webhook-signing/v1",
                "algorithms": ["ed25519"],
                "legacy_hmac_fallback": True,
                "delivery_retry_horizon_seconds": _RETRY_HORIZON_SECONDS,
            }
        return {"supported": False, "legacy_hmac_fallback": self._house.webhooks == "hmac"}

    async def get_products(self, params: Any, context: ToolContext | None = None) -> Any:
        if params["buying_mode"] == "refine":
            raise refuse("UNSUPPORTED_FEATURE", "This seller does not refine proposals.", field="buying_mode")
        if "account" in params:
            account_resolve(self._books, self._house, params["account"])
        shown, pagination = reading.page(search(self._house, params), params)
        scope = "account" if "account" in params else "public"
        return {"status": "completed", "products": shown, "pagination": pagination, "cache_scope": scope}

    async def list_accounts(self, params: Any, context: ToolContext | None = None) -> Any:
        reference = params.get("account") or {}
        if "brand" in reference:
            account_open(
                self._books, self._house, domain=reference["brand"]["domain"], operator=reference["operator"]
            )
        found = [account for account in self._books.accounts() if _named(account, reference)]
        status = params.get("status")
        found = [account for account in found if status in (None, account["status"])]
        shown, pagination = reading.page(found, params)
        return {"status": "completed", "accounts": shown, "pagination": pagination}

    async def sync_accounts(self, params: Any, context: ToolContext | None = None) -> Any:
        return await self._sync_once(params, context)

    async def create_media_buy(self, params: Any, context: ToolContext | None = None) -> Any:
        return await self._book_once(params, context)

    async def update_media_buy(self, params: Any, context: ToolContext | None = None) -> Any:
        return await self._change_once(params, context)

    async def get_media_buys(self, params: Any, context: ToolContext | None = None) -> Any:
        return reading.media_buys(self._house, self._books, params)

    async def get_task_status(self, params: Any, context: ToolContext | None = None) -> Any:
        return reading.task_status(self._house, self._books, params)

    async def list_tasks(self, params: Any, context: ToolContext | None = None) -> Any:
        return {"status": "completed", **reading.tasks(self._house, self._books, params)}

    async def _book(self, params: dict[str, Any], context: ToolContext | None = None) -> dict[str, Any]:
        return self._desk.book(params, scope=(context and context.caller_identity) or "")

    async def _change(self, params: dict[str, Any], context: ToolContext | None = None) -> dict[str, Any]:
        return buy_change(self._house, self._books, self._post, params)

    async def _sync(self, params: dict[str, Any], context: ToolContext | None = None) -> dict[str, Any]:
        with self._books.transaction():
            results = accounts_sync(self._books, self._house, params)
        answer = sync_accounts_response(results)
        if params.get("dry_run"):
            answer["dry_run"] = True
        return answer


def _named(account: dict[str, Any], reference: dict[str, Any]) -> bool:
    if "account_id" in reference:
        return account["account_id"] == reference["account_id"]
    if "brand" in reference:
        return account["brand"] == {"domain": reference["brand"]["domain"]} and (
            account["operator"] == reference["operator"]
        )
    return True
