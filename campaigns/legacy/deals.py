"""`deals`, with `booking_records` as lines and `portfolio_metadata` for the advertiser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar, get_args

from campaigns.brief import Channel
from campaigns.legacy.history import Histories, deal_status, status_of, unknown_statuses
from campaigns.legacy.owners import Owner
from campaigns.legacy.plans import Plan, PlannedRows, Problems, Refused, imported_id
from campaigns.legacy.sellers import seller_facts
from campaigns.legacy.source import Row, Source
from campaigns.legacy.values import UnmappableError, Values, flight, kept, moment, number, required, text
from orders.successors import LOST
from tasks_app import money
from tasks_app.lifecycle.declarations import lifecycle

_CHANNELS: frozenset[str] = frozenset(get_args(Channel))
_AUCTIONS = ("PA", "OPEN_AUCTION")
_GUARANTEED = ("PG", "UPFRONT")
# The source's price models; none said means a price per thousand (its `price` column is a CPM).
_MODELS = {"": "cpm", "CPM": "cpm", "CPP": "cpp", "FLAT": "flat_rate"}
_LARGEST = Decimal(10) ** 13
# The reference writes free words, "pending" unless told.
_BOUGHT = (
    "",
    "pending",
    "confirmed",
    "booked",
    "approved",
    "active",
    "live",
    "delivering",
    "completed",
    "paused",
)
_NOT_BOUGHT = (
    "cancelled",
    "canceled",
    "failed",
    "rejected",
    "declined",
    "expired",
    "void",
    "voided",
    "withdrawn",
)
_NO_AMOUNT = "price and volume, or a cost, that come to an amount are not there"
_Read = TypeVar("_Read")


def deal_rows(source: Source, owner: Owner, histories: Histories) -> PlannedRows:
    """Every row of `deals`. Raises UnreadableSourceError."""
    rows = PlannedRows()
    bookings = _by_deal(source, "booking_records", rows.refused)
    portfolio = _by_deal(source, "portfolio_metadata", rows.refused)
    for row in source.rows("deals"):
        reading = _Reading(row, owner, histories, bookings, portfolio)
        found = reading.plan()
        if isinstance(found, Plan):
            rows.plans.append(found)
        else:
            rows.refused.append(found)
    return rows


@dataclass(frozen=True, kw_only=True)
class _Beside:
    """Rows of another table by the deal that they belong to, and why one of a deal's cannot be read."""

    table: str
    rows: dict[str, list[Values]] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)

    def of(self, legacy_id: str) -> list[Values]:
        """Raises UnmappableError where one cannot be read: the deal would stand for less, or be another's."""
        if legacy_id in self.unread:
            raise UnmappableError(self.table, self.unread[legacy_id])
        return self.rows.get(legacy_id, [])


def _by_deal(source: Source, table: str, refused: list[Refused]) -> _Beside:
    beside = _Beside(table=table)
    for row in source.rows(table):
        problems = Problems()
        try:
            if row.unread:
                named = source.one(table, row.rowid, "deal_id")
                if isinstance(named, str):  # else it is no deal's in its own system either
                    beside.unread[named.strip()] = f"row {row.rowid} {row.unread}"
                raise UnmappableError("", row.unread)
            beside.rows.setdefault(required(row.values, "deal_id"), []).append(row.values)
        except UnmappableError as error:
            problems.found.append({"field": error.field, "problem": error.problem})
            refused.append(problems.refuse(row))
    return beside


class _Reading:
    """One deal, read column by column."""

    def __init__(
        self,
        row: Row,
        owner: Owner,
        histories: Histories,
        bookings: _Beside,
        portfolio: _Beside,
    ) -> None:
        self.row, self.values, self.owner = row, row.values, owner
        self.histories, self.bookings, self.portfolio = histories, bookings, portfolio
        self.problems = Problems()
        self.notes: list[str] = []
        self.not_bought: list[dict[str, Any]] = []  # booking records that became no line, whole

    def plan(self) -> Plan | Refused:
        if self.row.unread:
            self.problems.found.append({"field": "", "problem": self.row.unread})
            return self.problems.refuse(self.row)
        values, read = self.values, self.problems.read
        legacy_id = read(lambda: required(values, "id"))
        status = read(lambda: status_of(values, deal_status))
        created_at = read(lambda: moment(values, "created_at"))
        seller = read(lambda: seller_facts(values))
        media_buy = read(lambda: text(values, "seller_deal_id"))
        span = read(lambda: flight(values, "flight_start", "flight_end", self.owner.zone))
        currency = read(self._currency)
        advertiser = read(lambda: self._advertiser(legacy_id or ""))
        read(lambda: required(values, "product_id"))
        lines = (
            read(lambda: self._lines(legacy_id, currency, over=status in LOST))
            if legacy_id and currency
            else None
        )
        if self.problems.found or not (
            legacy_id and status and created_at and seller and span and currency and advertiser
        ):
            told = values.get("status")
            unknown = told if status is None and isinstance(told, str) else None
            return self.problems.refuse(self.row, unknown_status=unknown)
        history = self.histories.get(("deals", legacy_id), [])
        self._note_history(unknown_statuses(history, lifecycle("deal")))
        legacy = kept(values)
        provenance: dict[str, Any] = {"source": self.owner.source, "table": "deals", "id": legacy_id}
        provenance |= {"row": legacy, **({"not_bought": self.not_bought} if self.not_bought else {})}
        return Plan(
            table="deals",
            rowid=self.row.rowid,
            legacy_id=legacy_id,
            pk=imported_id(self.owner.source, "deals", legacy_id, created_at),
            status=status,
            created_at=created_at,
            updated_at=str(legacy.get("updated_at", "")),
            fields={
                "advertiser": advertiser,
                "currency": currency,
                "start_at": span[0],
                "end_at": span[1],
                "zone": self.owner.zone,
                "media_buy_id": media_buy or "",
                "terms": {"imported": provenance},
            },
            history=history,
            lines=tuple({**line, "start_at": span[0], "end_at": span[1]} for line in lines or ()),
            seller=seller,
            notes=tuple(self.notes),
        )

    def _currency(self) -> str:
        # A database of schema version 1 has no such column; the source's own migration makes it USD.
        told = text(self.values, "currency") or "USD"
        if not money.is_currency(told):
            raise UnmappableError("currency", f"{told[:20]!r} is no ISO 4217 currency")
        return told

    def _advertiser(self, legacy_id: str) -> Any:
        column = "portfolio_metadata.advertiser_id"
        told = [text(values, "advertiser_id") for values in self.portfolio.of(legacy_id)]
        found = self.owner.advertiser(column, next((name for name in told if name), ""))
        if found is None:
            raise UnmappableError(column, "names no advertiser: say --advertiser NAME for such deals")
        return found

    def _note_history(self, unknown: list[str]) -> None:
        if unknown:
            self.notes.append(f"its history has statuses that are unknown here: {', '.join(unknown)}")

    def _lines(self, legacy_id: str, currency: str, *, over: bool) -> list[dict[str, Any]]:
        """A line per booking record, else one of the deal's own price and volume, else none, with a note.
        What was not bought is none, but of a deal that came to nothing itself: there it says what was at
        stake.

        Raises UnmappableError for a record of something booked that cannot become one: the deal would stand
        for less.
        """
        booked = self.bookings.of(legacy_id)
        found: list[dict[str, Any]] = []
        for told in (
            (self._booked(booking, currency, over=over) for booking in booked)
            if booked
            else self._whole(currency)
        ):
            line, problem = told
            if line is None:
                self.notes.append(f"no line: {problem}")
            else:
                found.append({**line, "position": len(found) + 1})
        return found

    def _whole(self, currency: str) -> Iterator[tuple[dict[str, Any] | None, str]]:
        try:
            line = self._line(self._channel(text(self.values, "media_type")))
            volume = number(
                self.values, "guaranteed_grps" if line["pricing_model"] == "cpp" else "impressions"
            )
            yield self._bounded({**line, "units": volume}, _gross(line, volume), currency)
        except UnmappableError as error:
            yield None, str(error)

    def _booked(self, booking: Values, currency: str, *, over: bool) -> tuple[dict[str, Any] | None, str]:
        state = text(booking, "booking_status").lower()
        if state in _NOT_BOUGHT:
            return self._not_booked(booking, currency, state, over=over)
        if state not in _BOUGHT:
            self.notes.append(f"the booking status {state[:40]!r} is none that is known; kept as bought")
        return self._of_record(booking, currency)

    def _not_booked(
        self, booking: Values, currency: str, state: str, *, over: bool
    ) -> tuple[dict[str, Any] | None, str]:
        line, problem = None, ""
        if over:
            with suppress(UnmappableError):  # nothing was bought: its deal stands for no less
                line, problem = self._of_record(booking, currency)
        if line is None:
            self.not_bought.append(kept(booking))
        return line, problem or f"booking record: {state}"

    def _of_record(self, booking: Values, currency: str) -> tuple[dict[str, Any] | None, str]:
        units, cost = (_of_a_booking(booking, number, name) for name in ("impressions", "cost"))
        if not cost:
            return None, f"booking record: {_NO_AMOUNT}"
        if cost >= _LARGEST:
            raise UnmappableError("booking_records.cost", f"is {cost:g}, which nobody booked")
        channel, package = (_of_a_booking(booking, text, name) for name in ("channel", "line_id"))
        line = self._line(self._channel(channel or text(self.values, "media_type")))
        told = {**line, "units": units, "package_id": package, "terms": {"imported": kept(booking)}}
        return self._bounded(told, cost, currency)

    def _line(self, channel: str) -> dict[str, Any]:
        values = self.values
        told, deal_type = text(values, "price_model").upper(), text(values, "deal_type").upper()
        if told not in _MODELS:
            raise UnmappableError("price_model", f"{told[:40]!r} is no rate basis that is known here")
        fixed = deal_type not in _AUCTIONS
        special = "cpp" if told == "CPP" else "fixed_price_cpm" if fixed else "bid_floor_cpm"
        rate = number(values, special) if told != "FLAT" else None
        product = required(values, "product_id")
        return {
            "channel": channel,
            "product_id": product,
            "product_name": (text(values, "product_name", limit=1_000_000) or product)[:255],
            "pricing_model": _MODELS[told],
            "is_fixed": fixed,
            "guaranteed": deal_type in _GUARANTEED,
            "rate": _rate(number(values, "price") if rate is None else rate),
        }

    def _channel(self, told: str) -> str:
        if told and told.lower() not in _CHANNELS:
            self.notes.append(f"the channel {told[:40]!r} is none of AdCP's; kept as told")
        return told.lower()[:40]

    def _bounded(
        self, line: dict[str, Any], gross: Decimal | None, currency: str
    ) -> tuple[dict[str, Any] | None, str]:
        amount = None if gross is None or gross >= _LARGEST else money.amount_of(gross)
        budget = money.floor_to_unit(amount, currency) if amount else None
        if not budget:
            return None, _NO_AMOUNT
        if budget != amount:
            self.notes.append(f"{amount} {currency} is finer than the currency's unit; kept as {budget}")
        return {**line, "budget": budget}, ""


def _of_a_booking(booking: Values, read: Callable[[Values, str], _Read], name: str) -> _Read:
    """A column of a booking record, which a problem with it names."""
    try:
        return read(booking, name)
    except UnmappableError as error:
        raise UnmappableError(f"booking_records.{error.field}", error.problem) from None


def _gross(line: dict[str, Any], volume: Decimal | None) -> Decimal | None:
    rate = line["rate"]
    if rate is None or line["pricing_model"] == "flat_rate":
        return rate
    if volume is None:
        return None
    return rate * volume / (1000 if line["pricing_model"] == "cpm" else 1)


def _rate(told: Decimal | None) -> Decimal | None:
    return None if told is None else told.quantize(Decimal("0.000001"))
