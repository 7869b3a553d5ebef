"""Conversion between a brief and the fields of its form, with each problem beside its field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from django.http import QueryDict

from campaigns.brief import Problem
from campaigns.briefs.fields import (
    BriefFields,
    CeilingRow,
    ChannelRow,
    CountryRow,
    SellerRow,
    TextForm,
    check_ceilings,
    check_shares,
    seller_choices,
)
from campaigns.buyers import buyer_of
from tasks_app.money import decimal_of
from tasks_app.people.models import User

#: A brief's field to the field of the form.
_FIELDS = {
    "advertiser": "advertiser",
    "brand_domain": "advertiser",
    "team": "advertiser",
    "budget.total": "total",
    "budget.currency": "currency",
    "flight.start": "start",
    "flight.end": "end",
    "flight.zone": "zone",
    "geography": "regions",
    "geography.regions": "regions",
    "objective.goal": "goal",
    "objective.kpi": "kpi",
    "objective.target": "target",
    "constraints.delivery_type": "delivery_type",
}
_ADVERTISER = ("advertiser", "brand_domain", "team")
_LISTS = ("measurement", "formats", "policy_categories", "regions")
_CHANNEL = ("channel", "share", "minimum", "fixed")
_LARGEST_WEIGHT = 1000
# Problems that need the name of their field in front.
_PREDICATES = ("is ", "are ", "must ", "has ", "names ")
Row = TypeVar("Row", bound=TextForm)


class BriefEntry:
    """The fields and rows of one brief.

    `problems` are those of the brief as a whole; `channels_problem` and `countries_problem` those of all rows
    together.
    """

    def __init__(self, data: QueryDict, *, user: User) -> None:
        self.fields = BriefFields(data, user=user)
        self.channels = _rows(ChannelRow, data, _CHANNEL)
        self.countries = _rows(CountryRow, data, ("country",))
        self.ceilings = _rows(CeilingRow, data, ("basis", "rate"))
        self.excluded = _rows(partial(SellerRow, excluded=seller_choices()), data, ("excluded",))
        self.problems: list[str] = []
        self.channels_problem = self.countries_problem = ""

    def brief(self) -> dict[str, Any]:
        """Return the brief as plain data, without what is empty."""
        value, chosen = self.fields.value, self.fields.chosen_advertiser()
        listed = {name: _words(value(name)) for name in _LISTS}
        named = (
            {"advertiser": chosen.name, "team": chosen.team.name, "brand_domain": chosen.brand_domain}
            if chosen
            else {"advertiser": value("advertiser")}
        )
        return {
            **_filled({"name": value("name"), **named}),
            "objective": _filled({name: value(name) for name in ("goal", "kpi", "target")}),
            "budget": _filled({name: value(name) for name in ("total", "currency")}),
            "flight": _filled({name: value(name) for name in ("zone", "start", "end")}),
            "channels": [_channel_data(row) for row in self.channels],
            "geography": _filled(
                {"countries": [row.value("country") for row in self.countries], "regions": listed["regions"]}
            ),
            **_filled(
                {
                    "audience": value("audience"),
                    **{name: listed[name] for name in _LISTS if name != "regions"},
                    "booking": value("booking"),
                    "constraints": _filled(
                        {
                            "ceilings": {row.value("basis"): row.value("rate") for row in self.ceilings},
                            "excluded_sellers": [row.value("excluded") for row in self.excluded],
                            "delivery_type": value("delivery_type"),
                        }
                    ),
                }
            ),
        }

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Put each problem beside the field that it is about, with those that only the form can have."""
        check_ceilings(self.ceilings)
        self.channels_problem = check_shares(self.channels)
        if not self.countries:
            self.countries_problem = "Choose a country."
        for problem in problems:
            self._add_problem(problem["field"], problem["problem"])

    def is_valid(self) -> bool:
        """Return whether no problem was added."""
        rows = [*self.channels, *self.countries, *self.ceilings, *self.excluded]
        whole = (*self.problems, self.channels_problem, self.countries_problem)
        return not any(whole) and not any(form.errors for form in (self.fields, *rows))

    def _add_problem(self, path: str, problem: str) -> None:
        parts = path.split(".")
        if parts[0] == "channels":
            self._add_channel_problem(parts[1:], problem)
        elif parts[:2] == ["geography", "countries"]:
            row = _row_at(self.countries, parts[2:])
            if row is not None:
                _add_error(row, "country", problem)
            self.countries_problem = self.countries_problem or _sentence("Countries", problem)
        elif parts[:2] == ["constraints", "ceilings"]:
            for ceiling in self.ceilings:
                if ceiling.value("basis") in parts[2:] and not ceiling.errors:
                    _add_error(ceiling, "rate", problem)
        elif path in _ADVERTISER and not self.fields.value("advertiser"):
            _add_error(self.fields, "advertiser", "Choose an advertiser")
        elif path == "brand_domain" and self.fields.chosen_advertiser() is None:
            return  # the advertiser is wrong, which its own problem says
        else:
            name = _FIELDS.get(path) or _FIELDS.get(path.rpartition(".")[0], parts[0])
            if name in self.fields.fields:
                _add_error(self.fields, name, problem)
            else:
                self.problems.append(_sentence(path, problem))

    def _add_channel_problem(self, parts: Sequence[str], problem: str) -> None:
        row = _row_at(self.channels, parts)
        name = (*parts, "", "")[1] or "channel"
        if row is None:
            self.channels_problem = self.channels_problem or _sentence("Channels", problem)
        elif name != "weight":  # `check_shares` says it in percent
            _add_error(row, name, problem if row.value("channel") else "Choose a channel")


def entry_data(brief: Mapping[str, Any], *, user: User) -> QueryDict:
    """Return what the form holds for a brief. What is no brief at all becomes empty fields."""
    data = QueryDict(mutable=True)
    objective, budget, flight, geography, limits = (
        _mapping(brief.get(part)) for part in ("objective", "budget", "flight", "geography", "constraints")
    )
    advertiser = buyer_of(user, dict(brief)).advertiser
    values = {
        **{name: brief.get(name) for name in ("name", "audience", "booking")},
        **{name: ", ".join(map(str, _listed(brief.get(name)))) for name in _LISTS},
        **{name: objective.get(name) for name in ("goal", "kpi", "target")},
        **{name: budget.get(name) for name in ("total", "currency")},
        **{name: flight.get(name) for name in ("zone", "start", "end")},
        "regions": ", ".join(map(str, _listed(geography.get("regions")))),
        "delivery_type": limits.get("delivery_type"),
        "advertiser": advertiser.pk if advertiser else brief.get("advertiser"),
    }
    for name, value in values.items():
        data[name] = _to_text(value)
    for channel in _channel_rows(_channels_of(brief)):
        for name in _CHANNEL:
            data.appendlist(name, channel[name])
    for basis, rate in _mapping(limits.get("ceilings")).items():
        data.appendlist("basis", str(basis))
        data.appendlist("rate", _to_text(rate))
    data.setlist("country", [str(code) for code in _listed(geography.get("countries"))])
    data.setlist("excluded", [str(name) for name in _listed(limits.get("excluded_sellers"))])
    return data


def values_without_field(brief: Mapping[str, Any], entry: BriefEntry) -> list[Problem]:
    """Return a problem for each value of a brief that its form would lose."""
    kept = set(_leaves(entry.brief()))
    if entry.fields.chosen_advertiser() is not None:
        brief = {name: value for name, value in brief.items() if name not in _ADVERTISER}
    channels = [
        {name: value for name, value in channel.items() if name != "weight" or _weight(value) is None}
        for channel in _channels_of(brief)
    ]
    if channels:
        brief = {**brief, "channels": channels}
    lost = [path for path, value in _leaves(brief) if (path, value) not in kept]
    return [{"field": path, "problem": "cannot be shown in the form"} for path in lost]


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each value in plain data."""
    if isinstance(value, Mapping):
        children = [(str(name), one) for name, one in value.items()]
    elif isinstance(value, list | tuple):
        children = [(str(place), one) for place, one in enumerate(value)]
    else:
        if value not in (None, ""):
            yield path, _to_text(value).strip()
        return
    for name, child in children:
        yield from _leaves(child, f"{path}.{name}" if path else name)


def _rows(make_row: Callable[[dict[str, str]], Row], data: QueryDict, names: Sequence[str]) -> list[Row]:
    """Return the rows that are not empty, in the order in which they were typed."""
    columns = [data.getlist(name) for name in names]
    count = max((len(column) for column in columns), default=0)
    cells = [[column[place] if place < len(column) else "" for column in columns] for place in range(count)]
    filled = [row for row in cells if any(cell.strip() for cell in row)]
    return [make_row(dict(zip(names, row, strict=True))) for row in filled]


def _row_at(rows: Sequence[Row], parts: Sequence[str]) -> Row | None:
    """Return the row that a path's remaining parts begin with, or None."""
    place = int(parts[0]) if parts and parts[0].isdecimal() else len(rows)
    return rows[place] if place < len(rows) else None


def _channel_data(row: ChannelRow) -> dict[str, Any]:
    fixed = row.value("fixed")
    share = "" if fixed else row.value("share")
    amounts = {"weight": share, "minimum": row.value("minimum"), "fixed": fixed}
    return {"channel": row.value("channel"), **_filled(amounts)}


def _channels_of(brief: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = _listed(brief.get("channels"))
    return [channel if isinstance(channel, Mapping) else {"channel": channel} for channel in listed]


def _channel_rows(channels: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the rows of a brief's channels; weights become shares that add up to 100."""
    weights = [
        Decimal(0) if channel.get("fixed") else _weight(channel.get("weight", 1)) or Decimal(0)
        for channel in channels
    ]
    total = sum(weights, Decimal(0))
    shares = [round(weight * 100 / total, 2) if total else Decimal(0) for weight in weights]
    if any(shares):
        shares[shares.index(max(shares))] += 100 - sum(shares)
    return [
        {
            "share": f"{share.normalize():f}" if share else "",
            **{name: _to_text(channel.get(name)) for name in ("channel", "minimum", "fixed")},
        }
        for channel, share in zip(channels, shares, strict=True)
    ]


def _weight(value: Any) -> Decimal | None:
    """Return a weight that a brief may have, or None."""
    weight = decimal_of(value)
    return weight if weight is not None and 0 < weight <= _LARGEST_WEIGHT else None


def _add_error(form: TextForm, name: str, problem: str) -> None:
    """Put a problem beside a field, once."""
    sentence = _sentence(str(form.fields[name].label), problem)
    if sentence not in form.errors.get(name, ()):
        form.add_error(name, sentence)


def _sentence(label: str, problem: str) -> str:
    text = f"{label} {problem}" if problem.startswith(_PREDICATES) else problem[:1].upper() + problem[1:]
    return f"{text.rstrip('.')}."


def _filled(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in ("", [], {})}


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _to_text(value: Any) -> str:
    return "" if value is None else str(value)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
