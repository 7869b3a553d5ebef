"""The fields of a brief's form, and its repeated rows.

Everything is text here. The brief itself is validated as a whole (`campaigns.brief`), and its problems are
shown beside these fields.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any, get_args
from zoneinfo import available_timezones

from django import forms

from campaigns.brief import Channel, RateBasis
from tasks_app.money import currency_codes, decimal_of
from tasks_app.people.models import Advertiser, User
from tasks_app.people.scope import advertisers_seen
from tasks_app.sellers.models import Seller

Choices = Sequence[tuple[str, str]]
_WHOLE = Decimal(100)
_MOST_LISTED = 500
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_CHOOSE = ("", "Choose")


def _text(label: str, *, widget: forms.Widget | None = None, help_text: str = "") -> forms.CharField:
    """Return a field that keeps whatever was typed."""
    return forms.CharField(
        label=label, required=False, strip=False, widget=widget or forms.TextInput(), help_text=help_text
    )


def _choice(label: str, choices: Choices = (), *, help_text: str = "") -> forms.CharField:
    return _text(label, widget=forms.Select(choices=choices), help_text=help_text)


class TextForm(forms.Form):
    """A form whose values are read as they were typed."""

    def __init__(self, data: Any, *, auto_id: str | bool = False, **choices: Choices) -> None:
        super().__init__(data, auto_id=auto_id)
        for name, field in self.fields.items():
            widget = field.widget
            widget.attrs["class"] = "fd-in below"
            if isinstance(widget, forms.Select):
                widget.choices = _with_current(choices.get(name, widget.choices), self.value(name))

    def value(self, name: str) -> str:
        """Return what was typed into a field, without spaces around it."""
        return str(self.data.get(name) or "").strip()


def _with_current(choices: Iterable[Any], value: str) -> list[Any]:
    """Return choices that include the present value, so that it is not lost."""
    listed = list(choices)
    return listed if not value or value in dict(listed) else [*listed, (value, value)]


class BriefFields(TextForm):
    """Everything of a brief that is there once."""

    name = _text("Name")
    advertiser = _choice("Advertiser")
    total = _text("Budget", widget=forms.TextInput(attrs={"inputmode": "decimal"}))
    currency = _choice("Currency")
    start = _text("First day", widget=forms.DateInput(attrs={"type": "date"}))
    end = _text("Last day", widget=forms.DateInput(attrs={"type": "date"}))
    zone = _choice("Time zone")
    regions = _text("Regions", help_text="ISO 3166-2, separated by commas: US-IL, US-NY. Empty: everywhere")
    audience = _text("Audience", widget=forms.Textarea(attrs={"rows": 3}))
    goal = _text("Goal")
    kpi = _text("KPI", help_text="Such as impressions or completed_views")
    target = _text("Target of the KPI", widget=forms.TextInput(attrs={"inputmode": "decimal"}))
    measurement = _text("Measurement", help_text="Separated by commas")
    formats = _text("Formats", help_text="Separated by commas. Empty: any")
    policy_categories = _text("Policy categories", help_text="As AdCP names them, separated by commas")
    delivery_type = _choice(
        "Delivery",
        [("", "Either"), ("guaranteed", "Guaranteed only"), ("non_guaranteed", "Non-guaranteed only")],
    )
    booking = _choice(
        "Booking",
        [("each", "Each deal once it is approved"), ("together", "All deals once every one is decided")],
    )

    def __init__(self, data: Any, *, user: User) -> None:
        known = advertisers_seen(user).select_related("team").order_by("name", "team__name")
        self.advertisers = {str(one.pk): one for one in known[:_MOST_LISTED]}
        choices = [(pk, f"{one.name} ({one.team.name})") for pk, one in self.advertisers.items()]
        super().__init__(
            data,
            auto_id="brief-%s",
            advertiser=[_CHOOSE, *choices],
            currency=[_CHOOSE, *((code, code) for code in currency_codes())],
            zone=[_CHOOSE, *((zone, zone) for zone in sorted(available_timezones()))],
        )
        for name in ("start", "end"):
            if self.value(name) and not _DAY.fullmatch(self.value(name)):
                self.fields[name].widget.attrs["type"] = "text"  # a date input would drop it: +14d

    def chosen_advertiser(self) -> Advertiser | None:
        """Return the advertiser, if it is one that the user may choose."""
        return self.advertisers.get(self.value("advertiser"))


class ChannelRow(TextForm):
    """One channel: a share of the budget in percent, or an exact amount."""

    channel = _choice("Channel", [_CHOOSE, *((name, name.replace("_", " ")) for name in get_args(Channel))])
    share = _text("Share, %", widget=forms.NumberInput(attrs={"min": 0, "max": 100, "step": "any"}))
    minimum = _text("At least", widget=forms.TextInput(attrs={"inputmode": "decimal"}))
    fixed = _text("Exactly", widget=forms.TextInput(attrs={"inputmode": "decimal"}))


class CountryRow(TextForm):
    """One country."""

    country = _choice("Country")

    def __init__(self, data: Any) -> None:
        super().__init__(data, country=[_CHOOSE, *_countries()])


class CeilingRow(TextForm):
    """The highest rate for one pricing model."""

    basis = _choice(
        "Pricing model", [_CHOOSE, *((name, name.replace("_", " ")) for name in get_args(RateBasis))]
    )
    rate = _text("At most", widget=forms.TextInput(attrs={"inputmode": "decimal"}))


class SellerRow(TextForm):
    """One seller that is not asked."""

    excluded = _choice("Seller")


def seller_choices() -> list[tuple[str, str]]:
    """Return what a SellerRow offers."""
    return [_CHOOSE, *Seller.objects.order_by("name").values_list("slug", "name")[:_MOST_LISTED]]


def check_ceilings(rows: Sequence[CeilingRow]) -> None:
    """Note what is missing in a row, and each pricing model that is named twice."""
    named = Counter(row.value("basis") for row in rows)
    for row in rows:
        if not row.value("basis"):
            row.add_error("basis", "Choose a pricing model.")
        elif named[row.value("basis")] > 1:
            row.add_error("basis", "This pricing model is named twice.")
        elif not row.value("rate"):
            row.add_error("rate", "The rate is missing.")


def check_shares(rows: Sequence[ChannelRow]) -> str:
    """Note each wrong share in its row; return the problem with all rows together, or ""."""
    if not rows:
        return "Choose a channel."
    shares = []
    for row in rows:
        if row.value("fixed"):
            continue
        share = decimal_of(row.value("share"))
        if share is None or not 0 < share <= _WHOLE:
            row.add_error("share", "A share is a number above 0 and at most 100.")
        else:
            shares.append(share)
    total = sum(shares, Decimal(0))
    if not shares or total == _WHOLE or any(row.errors for row in rows):
        return ""
    return f"The shares add up to {total.normalize():f} %. They have to come to 100 %."


@cache
def _countries() -> tuple[tuple[str, str], ...]:
    """Return (code, "Name (code)") of each country of ISO 3166-1, by name, from the time zone database."""
    table = (files("tzdata") / "zoneinfo" / "iso3166.tab").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in table.splitlines() if line and not line.startswith("#")]
    return tuple((code, f"{name} ({code})") for code, name in sorted(rows, key=lambda row: row[1]))
