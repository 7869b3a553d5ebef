"""What people call sellers, and what addresses of pages do: no two so that nobody could tell them apart."""

from __future__ import annotations

from itertools import count
from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.utils.text import slugify

from tasks_app.alike import alike
from tasks_app.sellers.models import Seller


def seller_alike(name: str, *, but: Seller | None = None) -> str:
    """The name of another seller than `but` that looks the same; empty where there is none."""
    others = Seller.objects.exclude(pk=but.pk) if but else Seller.objects.all()
    looks = alike(name)
    return next((other for other in others.values_list("name", flat=True) if alike(other) == looks), "")


def is_name(text: str) -> bool:
    """Whether people can call a seller so: it has a letter or a digit of any script."""
    return any(character.isalnum() for character in text)


def name_check(name: str, *, but: Seller | None = None) -> None:
    """Raises ValidationError for what is no name, one that another seller has, or one that looks the same."""
    if not is_name(name):
        raise ValidationError({"name": "A seller's name has a letter or a digit."})
    other = seller_alike(name, but=but)
    if other:
        how = "" if other == name else f", in other characters: {other!a}"
        raise ValidationError({"name": f"Another seller is called so{how}."})


def free_slug(name: str, url: str) -> str:
    """A slug that no other seller has: names that differ may have the same ("Foo Bar", "Foo & Bar"); of its
    host, where its name is in another script."""
    host = str(urlsplit(url).hostname)
    slug = (_slug_of(name) or _slug_of(host) or "seller")[:60]
    if not Seller.objects.filter(slug=slug).exists():
        return slug
    return next(
        numbered
        for numbered in (f"{slug[:55]}-{number}" for number in count(2))
        if not Seller.objects.filter(slug=numbered).exists()
    )


def _slug_of(words: str) -> str:
    return slugify(words.replace(".", "-"))
