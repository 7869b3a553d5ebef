"""`manage.py add_seller`: ask a seller's agent what it can do, then keep it."""

from __future__ import annotations

import sys
from argparse import BooleanOptionalAction
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser

from tasks_app.adcp.types import Capabilities, DiscoveryError
from tasks_app.management.base import DeskCommand, read_file, refuse, user_named
from tasks_app.people.actors import SYSTEM
from tasks_app.people.models import User
from tasks_app.sellers.adding.advice import may_need_private
from tasks_app.sellers.adding.probe import seller_try
from tasks_app.sellers.headers import TOKEN_CHARS, headers_parse, secret_headers_parse, token_check
from tasks_app.sellers.models import KEYS_ELSEWHERE, Seller, TrustChange
from tasks_app.sellers.presenters import trust_lines
from tasks_app.sellers.services import seller_abilities, seller_add, seller_options
from tasks_app.sellers.trust import trust_waiting

_MAX_HEADERS = 10_000


class Command(DeskCommand):
    help = (
        "Asks a seller's agent what it can do and keeps it; one of the same name is brought up to date. "
        "Nothing is kept when it does not answer. It is then read once with our credentials."
    )
    exit_codes = (
        "Exit code 0: kept; 1: kept, and the seller does not take our credentials; 2: refused or impossible, "
        "and nothing was done."
    )

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="what people call the seller")
        parser.add_argument("url", help="the MCP endpoint, or the address under which the A2A agent card is")
        parser.add_argument("--protocol", required=True, choices=Seller.Protocol.values)
        token = parser.add_mutually_exclusive_group()
        token.add_argument("--token", help="bearer token; visible in the process list, see --token-file")
        token.add_argument("--token-file", metavar="F", help="file with the bearer token; -: standard input")
        parser.add_argument(
            "--auth",
            choices=Seller.AuthScheme.values,
            help="what the token is: bearer (the default of a new one), or basic: name:password",
        )
        parser.add_argument(
            "--header",
            action="append",
            metavar="'NAME: VALUE'",
            help="a header of the seller's own, such as a tenant; may be repeated",
        )
        parser.add_argument(
            "--secret-headers-file",
            metavar="F",
            help="file with its secret headers, NAME: VALUE a line; -: standard input",
        )
        parser.add_argument(
            "--status-tool", metavar="T", help="its own name for the tool that tells of a task"
        )
        parser.add_argument(
            "--account-in-reads",
            choices=Seller.AccountInReads.values,
            help="whether reads of media buys and tasks name the account (auto: as the seller takes it)",
        )
        parser.add_argument(
            "--webhooks",
            choices=Seller.WebhookMode.values,
            help="how the seller signs what it tells us (none, the default of a new one: it is polled)",
        )
        parser.add_argument(
            "--jwks-url",
            metavar="U",
            help="where its keys are, for rfc9421; else by its brand.json",
        )
        parser.add_argument(
            "--allow-private",
            action=BooleanOptionalAction,
            help="the address may be private, and plain http",
        )
        parser.add_argument("--slots", type=int, metavar="N", help="calls out at the same time (1)")
        parser.add_argument(
            "--as", dest="user", metavar="USER", help="who asks; a seller in use changes with a second person"
        )
        parser.add_argument("--reason", default="", metavar="WHY", help="for who approves such a change")

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
                auth_scheme=options["auth"],
                headers=headers_parse("\n".join(options["header"])) if options["header"] else None,
                secret_headers=_secret_headers(options["secret_headers_file"]),
                status_tool=options["status_tool"],
                account_in_reads=options["account_in_reads"],
                actor=_actor(options["user"]),
                reason=options["reason"],
            )
        except ValidationError as error:
            refuse(_problems(error))
        except DiscoveryError as error:
            private = not allow_private and may_need_private(error.error)
            hint = ". A private address, or plain http, needs --allow-private." if private else ""
            refuse(f"{options['name']} was not added: {error}{hint}")
        waits = trust_waiting(seller)
        tried = seller_try(seller=seller, with_pending=waits is not None)
        self.answer(
            {
                **_data(seller, capabilities),
                "waits": dict(waits.after) if waits else {},
                "read": {"tool": tried.tool, "answered": tried.answered, "words": tried.result_text},
            },
            [
                *_lines(seller, capabilities),
                "One read with our credentials:",
                f"  {tried.tool or 'none'}: {tried.result_text}",
                *(_waiting_lines(waits) if waits else []),
            ],
        )
        if tried.credentials_refused:
            self.found(f"{seller.name} was kept, and does not take our credentials: {tried.result_text}")


def _actor(username: str | None) -> User | str:
    if username is None:
        return SYSTEM
    user = user_named(username)
    if not user.has_perm("tasks_app.change_seller"):
        refuse(f"{user} may not change sellers.")
    return user


def _token(options: dict[str, Any]) -> str | None:
    """Raise CommandError, ValidationError."""
    basic = options["auth"] == Seller.AuthScheme.BASIC
    if options["token_file"] is None:
        token = options["token"]
        return None if token is None else token_check(token, basic=basic)
    kept = read_file(options["token_file"], limit=TOKEN_CHARS * 4, stdin=sys.stdin)
    try:
        return token_check(kept.decode().strip(), basic=basic)
    except UnicodeDecodeError:
        refuse("The token is not text.")


def _secret_headers(name: str | None) -> dict[str, str] | None:
    """Raises ValidationError, CommandError."""
    if name is None:
        return None
    try:
        return secret_headers_parse(read_file(name, limit=_MAX_HEADERS, stdin=sys.stdin).decode())
    except UnicodeDecodeError:
        refuse("The secret headers are not text.")


def _problems(error: ValidationError) -> str:
    named = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
    return "; ".join(f"{field}: {text}" for field, texts in named.items() for text in texts)


def _waiting_lines(change: TrustChange) -> list[str]:
    lines = [f"  {label}: {before} -> {after}" for label, before, after in trust_lines(change)]
    return ["It is in use: this waits for a second person, until then the present values stand.", *lines]


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
        "options": seller_options(seller),
        "may_be_booked": seller.may_be_sent_mutations,
        "can": [words for words, able in abilities.items() if able],
        "cannot": [words for words, able in abilities.items() if not able],
    }


def _lines(seller: Seller, capabilities: Capabilities) -> list[str]:
    told = [
        f"{seller.name} ({seller.slug}): {capabilities.agent_name}, {seller.get_protocol_display()}, "
        f"AdCP {seller.adcp_version}",
        "The seller says of itself:",
        *(f"  {'yes' if able else 'no '}  {words}" for words, able in seller_abilities(seller).items()),
        "Set by us:",
        *(f"  {name}: {value}" for name, value in seller_options(seller).items()),
    ]
    if seller.keys_elsewhere:
        told.append(f"{KEYS_ELSEWHERE} Its webhooks are refused, and it is polled.")
    if not seller.may_be_sent_mutations:
        told.append("Nothing is bought there until an administrator accepts the risk of buying twice.")
    return told
