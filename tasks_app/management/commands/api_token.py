"""`manage.py api_token`: a new API token for a login, or the end of all it has."""

from __future__ import annotations

from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction
from knox.settings import knox_settings

from tasks_app.management.base import DeskCommand, login_named, refuse, user_named
from tasks_app.people.actors import SYSTEM
from tasks_app.people.models import User
from tasks_app.people.security import Kind, security_record
from tasks_app.people.security_models import ApiToken
from tasks_app.people.tokens import TokenRefusedError, make_token


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
        if options["revoke"]:
            self._revoke(login_named(options["user"]))
        else:
            self._make(user_named(options["user"]), days)

    def _make(self, user: User, days: int) -> None:
        try:
            kept, token = make_token(user=user, name="Made by an operator", days=days, by=SYSTEM)
        except TokenRefusedError as error:
            refuse(str(error))
        self.answer({"user": user.username, "token": token, "expires_at": kept.expiry}, [token])

    @transaction.atomic
    def _revoke(self, user: User) -> None:
        ended, _ = ApiToken.objects.filter(user=user).delete()
        security_record(event=Kind.TOKEN_REVOKED, actor=SYSTEM, about=user.username, detail={"tokens": ended})
        self.answer({"user": user.username, "revoked": ended}, [f"{ended} revoked."])
