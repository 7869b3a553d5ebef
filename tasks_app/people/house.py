"""The house: the organisation that buys, in whose name sellers are asked."""

from __future__ import annotations

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from tasks_app.domains import DOMAIN_HINT, is_domain
from tasks_app.people.models import House

NO_HOUSE = "Name the house first: sellers are told who buys."
_KNOWN = "_fd_house"  # of a request


def house() -> House:
    """Return the house. Before somebody has named it, its name and domain are empty."""
    return House.objects.first() or House()


def house_of(request: HttpRequest) -> House:
    """Return the house, read once for a request."""
    if _KNOWN not in vars(request):
        vars(request)[_KNOWN] = house()
    known: House = vars(request)[_KNOWN]
    return known


def is_house_named() -> bool:
    """Return whether sellers can be told who buys. No seller is added before, so none is asked."""
    return House.objects.exists()


def mail_sender() -> str:
    """Return the address that mail comes from: FLIGHTDECK_MAIL_FROM, otherwise one at the house's domain."""
    return settings.MAIL_FROM or f"flightdeck@{house().domain or 'localhost'}"


def clean_domain(text: str) -> str:
    """Return a domain as it is stored. Raise ValidationError if it is none."""
    domain = text.strip().lower()
    if not is_domain(domain):
        raise ValidationError(f"Enter {DOMAIN_HINT}.")
    return domain


def is_domain_fixed() -> bool:
    """Return whether the domain stays as it is: sellers identify the house by it."""
    return bool(apps.get_model("tasks_app", "seller").objects.exists())


def house_after_migrate(**_: object) -> None:
    """Name the house as the environment does, if it has no name yet. A receiver of `post_migrate`."""
    if settings.HOUSE_NAME and not is_house_named():
        House.objects.create(name=settings.HOUSE_NAME, domain=settings.HOUSE_DOMAIN)
