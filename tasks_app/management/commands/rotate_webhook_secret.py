"""`manage.py rotate_webhook_secret`: give a seller a new shared secret for its webhooks."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser

from tasks_app.management.base import DeskCommand, refuse, user_named
from tasks_app.sellers.models import Seller
from tasks_app.sellers.services import webhook_secret_rotate


class Command(DeskCommand):
    help = (
        "Gives a seller a new shared webhook secret. Purchases asked for before told it the present one, "
        "which stays accepted until they are done. Neither is shown: sellers learn it with each purchase."
    )

    def arguments(self, parser: CommandParser) -> None:
        parser.add_argument("seller", help="the seller's short name (slug)")
        parser.add_argument("--as", dest="user", required=True, metavar="USER", help="who does it")
        parser.add_argument(
            "--drop-present",
            action="store_true",
            help="accept the present one no more: somebody else may know it",
        )

    def run(self, **options: Any) -> None:
        user = user_named(options["user"])
        seller = Seller.objects.filter(slug=options["seller"]).first()
        if seller is None:
            refuse(f"There is no seller {options['seller']!r}.")
        if not user.has_perm("tasks_app.change_seller"):
            refuse(f"{user} may not change sellers.")
        try:
            until = webhook_secret_rotate(seller=seller, actor=user, drop_present=options["drop_present"])
        except ValidationError as error:
            refuse(" ".join(error.messages))
        lasts = f"is accepted until {until:%Y-%m-%d %H:%M} UTC" if until else "is accepted no more"
        self.answer(
            {"seller": seller.slug, "previous_until": until},
            [f"{seller.name} has a new webhook secret; the one before {lasts}."],
        )
