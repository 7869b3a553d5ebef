"""`manage.py add_seller`: ask a seller's agent what it can do, then keep it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser

from tasks_app.adcp.addresses import AddressError, NameNotFoundError, check_url, resolve
from tasks_app.adcp.types import Capabilities, DiscoveryError
from tasks_app.management.base import DeskCommand, read_file, refuse
from tasks_app.sellers.models import Seller
from tasks_app.sellers.services import seller_abilities, seller_add

_MAX_TOKEN = 500


class Command(DeskCommand):
    help = (
        "Asks a seller's agent what it can do and keeps it; one of the same name is brought up to date. "
        "Nothing is kept when it does not answer."
    )

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="what people call the seller")
        parser.add_argument("url", help="the MCP endpoint, or the address under which the A2A agent card is")
        parser.add_argument("--protocol", required=True, choices=Seller.Protocol.values)
        token = parser.add_mutually_exclusive_group()
        token.add_argument("--token", help="bearer token; visible in the process list, see --token-file")
        token.add_argument("--token-file", metavar="F", help="file with the bearer token; -: standard input")
        parser.add_argument(
            "--webhooks",
            choices=Seller.WebhookMode.values,
            default=Seller.WebhookMode.NONE,
            help="how the seller signs what it tells us (none: it is polled)",
        )
        parser.add_argument(
            "--jwks-url",
            metavar="U",
            default="",
            help="where its keys are, for rfc9421; else by its brand.json",
        )
        parser.add_argument(
            "--allow-private", action="store_true", help="the address may be private, and plain http"
        )
        parser.add_argument("--slots", type=int, default=1, metavar="N", help="calls out at the same time")

    def run(self, **options: Any) -> None:
        url, allow_private = options["url"], options["allow_private"]
        try:
            seller, capabilities = seller_add(
                name=options["name"],
                url=url,
                protocol=options["protocol"],
                token=_token(options),
                webhooks=options["webhooks"],
                jwks_url=options["jwks_url"],
                allow_private=allow_private,
                slots=options["slots"],
            )
        except ValidationError as error:
            refuse(_problems(error))
        except DiscoveryError as error:
            refuse(f"{options['name']} was not added: {error}{'' if allow_private else _private_hint(url)}")
        self.answer(_data(seller, capabilities), _lines(seller, capabilities))


def _token(options: dict[str, Any]) -> str | None:
    if options["token_file"] is None:
        token = options["token"]
        return None if token is None else _checked(token)
    kept = read_file(options["token_file"], limit=_MAX_TOKEN * 4, stdin=sys.stdin)
    try:
        return _checked(kept.decode().strip())
    except UnicodeDecodeError:
        refuse("The token is not text.")


def _checked(token: str) -> str:
    """What can stand in an HTTP header; the token itself is never repeated."""
    if not token or len(token) > _MAX_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        refuse(
            f"The token is empty, longer than {_MAX_TOKEN} characters, or no single line of plain characters."
        )
    return token


def _private_hint(url: str) -> str:
    """What --allow-private would change, where it would change anything."""
    if _may_reach(url, allow_private=True) and not _may_reach(url, allow_private=False):
        return ". A private address, or plain http, needs --allow-private."
    return ""


def _may_reach(url: str, *, allow_private: bool) -> bool:
    try:
        host, port = check_url(url, allow_private=allow_private)
        return bool(asyncio.run(resolve(host, port, allow_private=allow_private)))
    except (AddressError, NameNotFoundError):
        return False


def _problems(error: ValidationError) -> str:
    named = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
    return "; ".join(f"{field}: {text}" for field, texts in named.items() for text in texts)


def _data(seller: Seller, capabilities: Capabilities) -> dict[str, Any]:
    abilities = seller_abilities(seller)
    return {
        "seller": seller.slug,
        "name": seller.name,
        "agent": capabilities.agent_name,
        "url": seller.url,
        "protocol": seller.protocol,
        "adcp_version": seller.adcp_version,
        "channels": list(capabilities.channels),
        "webhooks": seller.webhook_mode,
        "jwks_url": seller.jwks_url,
        "slots": seller.slots,
        "may_be_booked": seller.may_be_sent_mutations,
        "can": [words for words, able in abilities.items() if able],
        "cannot": [words for words, able in abilities.items() if not able],
    }


def _lines(seller: Seller, capabilities: Capabilities) -> list[str]:
    told = [
        f"{seller.name} ({seller.slug}): {capabilities.agent_name}, {seller.get_protocol_display()}, "
        f"AdCP {seller.adcp_version}",
        *(f"  {'yes' if able else 'no '}  {words}" for words, able in seller_abilities(seller).items()),
    ]
    if not seller.may_be_sent_mutations:
        told.append("Nothing is bought there until an administrator accepts the risk of buying twice.")
    return told
