"""A seller's web application: MCP at /mcp or A2A at /, bearer token asked for, keys published."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from adcp.server import (
    A2ABearerAuthMiddleware,
    BearerTokenAuth,
    BearerTokenAuthMiddleware,
    Principal,
    ToolContext,
    auth_context_factory,
    create_a2a_server,
    create_mcp_server,
    validator_from_token_map,
)
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

from demo.sellers.agent import VERSIONS, SellerAgent
from demo.sellers.catalogue import House
from demo.sellers.keys import HOST

_BUYER = "flightdeck"


def application(
    house: House, agent: SellerAgent, *, token: str, port: int, jwk: dict[str, Any] | None
) -> Starlette:
    """Everything the seller serves on its port."""
    auth = BearerTokenAuth(
        validate_token=validator_from_token_map({token: Principal(caller_identity=_BUYER)})
    )
    inner = _mcp(house, agent, auth, port) if house.protocol == "mcp" else _a2a(house, agent, auth, port)
    guarded = (
        inner if house.protocol == "mcp" else A2ABearerAuthMiddleware(inner, auth, message_parser=a2a_skill)
    )

    def lifespan(_: Starlette) -> AbstractAsyncContextManager[Any]:
        return inner.router.lifespan_context(inner)

    return Starlette(routes=[*_published(house, port, jwk), Mount("/", app=guarded)], lifespan=lifespan)


def _mcp(house: House, agent: SellerAgent, auth: BearerTokenAuth, port: int) -> Starlette:
    server = create_mcp_server(
        agent,
        name=house.name,
        host=HOST,
        port=port,
        context_factory=auth_context_factory,
        middleware=[_log_request(house)],
        stateless_http=True,
        supported_versions=VERSIONS,
        allowed_hosts=[HOST, "localhost"],
    )
    app: Starlette = server.streamable_http_app()
    app.add_middleware(BearerTokenAuthMiddleware, validate_token=auth.validate_token)
    return app


def _a2a(house: House, agent: SellerAgent, auth: BearerTokenAuth, port: int) -> Starlette:
    app: Starlette = create_a2a_server(
        agent,
        name=house.name,
        port=port,
        description=f"Sells {', '.join(product.name for product in house.products)}.",
        context_factory=auth_context_factory,
        middleware=[_log_request(house)],
        message_parser=a2a_skill,
        supported_versions=VERSIONS,
        allowed_hosts=[HOST, "localhost"],
        auth=auth,
        public_url=f"http://{HOST}:{port}/",
    )
    return app


def a2a_skill(context: Any) -> tuple[str | None, dict[str, Any]]:
    """The one skill a message calls: `{skill, input}` (A2A 1.0) or the older `{skill, parameters}`."""
    parts = context.message.parts if context.message else ()
    calls = [MessageToDict(part.data) for part in parts if part.WhichOneof("content") == "data"]
    calls = [call for call in calls if isinstance(call, dict) and call.get("skill")]
    if len(calls) != 1:
        return None, {}
    arguments = calls[0].get("input", calls[0].get("parameters"))
    return str(calls[0]["skill"]), _whole(arguments) if isinstance(arguments, dict) else {}


def _whole(value: Any) -> Any:
    """Protobuf's Struct knows only doubles: give whole numbers back as integers."""
    if isinstance(value, dict):
        return {key: _whole(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_whole(entry) for entry in value]
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        return int(value)
    return value


def _published(house: House, port: int, jwk: dict[str, Any] | None) -> list[Route]:
    if jwk is None:
        return []
    origin = f"http://{HOST}:{port}"

    async def jwks(_: Request) -> JSONResponse:
        return JSONResponse({"keys": [jwk]})

    async def brand(_: Request) -> JSONResponse:
        return JSONResponse(
            {
                "version": "1.0",
                "id": house.slug,
                "url": f"https://{house.domain}",
                "names": [{"en": house.name}],
                "agents": [
                    {
                        "type": "sales",
                        "id": house.slug,
                        "url": f"{origin}/mcp",
                        "jwks_uri": f"{origin}/.well-known/jwks.json",
                    }
                ],
            }
        )

    return [Route("/.well-known/jwks.json", jwks), Route("/.well-known/brand.json", brand)]


def _log_request(house: House) -> Callable[..., Awaitable[Any]]:
    async def log(
        skill: str, params: dict[str, Any], context: ToolContext, call_next: Callable[[], Awaitable[Any]]
    ) -> Any:
        started, outcome = time.monotonic(), "refused"
        try:
            answer = await call_next()
            outcome = answer.get("status", "answered") if isinstance(answer, dict) else "answered"
            return answer
        finally:
            took = (time.monotonic() - started) * 1000
            # One write, so that the lines of the three processes do not run into each other.
            print(f"{house.slug}: {skill} {outcome} {took:.0f} ms\n", end="", flush=True)

    return log
