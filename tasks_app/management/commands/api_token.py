"""`manage.py api_token`: a new API token for a login, or the end of all it has."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction
from knox.models import AuthToken
from knox.settings import knox_settings

from tasks_app.management.base import DeskCommand, login_named, refuse, user_named
from tasks_app.people.actors import SYSTEM
from tasks_app.people.models import User
from tasks_app.people.security import Kind, security_record

_MAX_DAYS = 3650


class Command(DeskCommand):
    help = "Makes an API token. It is printed once, here: only its digest is kept."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="whose rights it gives")
        days = knox_settings.TOKEN_TTL.days
        parser.add_argument(
            "--expires", type=int, default=days, metavar="DAYS", help=f"days it is valid ({days})"
        )
        parser.add_argument("--revoke", action="store_true", help="make none: end all that the login has")

    def run(self, **options: Any) -> None:
        days = options["expires"]
        if not 1 <= days <= _MAX_DAYS:
            refuse(f"A token is valid for 1 to {_MAX_DAYS} days, not {days}.")
        if options["revoke"]:
            self._revoke(login_named(options["user"]))
        else:
            self._make(user_named(options["user"]), days)

    @transaction.atomic
    def _make(self, user: User, days: int) -> None:
        kept, token = AuthToken.objects.create(user=user, expiry=timedelta(days=days))
        security_record(
            event=Kind.TOKEN_MADE,
            actor=SYSTEM,
            about=user.username,
            detail={"token": kept.token_key, "days": days},
        )
        self.answer({"user": user.username, "token": token, "expires_at": kept.expiry}, [token])

    @transaction.atomic
    def _revoke(self, user: User) -> None:
        ended, _ = AuthToken.objects.filter(user=user).delete()
        security_record(event=Kind.TOKEN_REVOKED, actor=SYSTEM, about=user.username, detail={"tokens": ended})
        self.answer({"user": user.username, "revoked": ended}, [f"{ended} revoked."])
