"""`manage.py api_token`: a new API token for a login."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser
from knox.models import AuthToken
from knox.settings import knox_settings

from tasks_app.management.base import DeskCommand, refuse, user_named

_MAX_DAYS = 3650


class Command(DeskCommand):
    help = "Makes an API token. It is printed once, here: only its digest is kept."

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="whose rights it gives")
        days = knox_settings.TOKEN_TTL.days
        parser.add_argument(
            "--expires", type=int, default=days, metavar="DAYS", help=f"days it is valid ({days})"
        )

    def run(self, **options: Any) -> None:
        days = options["expires"]
        if not 1 <= days <= _MAX_DAYS:
            refuse(f"A token is valid for 1 to {_MAX_DAYS} days, not {days}.")
        user = user_named(options["user"])
        kept, token = AuthToken.objects.create(user=user, expiry=timedelta(days=days))
        self.answer({"user": user.username, "token": token, "expires_at": kept.expiry}, [token])
