"""Deals in words: approved beside confirmed, what the seller says, what can be done."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from orders.amounts import departs_by, line_amounts, ran_uncounted, unstated
from orders.models import CONFIRMED, UNDECIDED, Deal, DealLine, DealMirror, DealStatus
from orders.questions import DIFFERENT
from orders.selectors import DealRows, deal_names
from orders.terms.compare import CURRENCY, PACKAGE
from tasks_app import days
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.desk import terms, text
from tasks_app.desk.items import joined, lowered, plural
from tasks_app.desk.states import face
from tasks_app.lifecycle.names import EntityName, link_to, namer_register, names_of
from tasks_app.money import decimal_of
from tasks_app.operations.answer_stages import Answers, answers_of
from tasks_app.operations.models import Operation
from tasks_app.operations.models import OperationStatus as O
from tasks_app.operations.presenters import operation_next
from tasks_app.operations.selectors import is_held

S = DealStatus
_RAN = "cancelled after its flight had begun: what has run is owed, and in no sum here"
_OWN_GLYPHS = {S.FAILED: "failed", S.CANCELLED: "stopped", S.EXPIRED: "stopped"}


@dataclass(frozen=True, kw_only=True)
class LineRow:
    """One package: what was approved, beside what the seller confirmed. `other` are whole
    sentences, `budget_change` the money ("−3,500.00, −5.7 %"); amounts in the deal's currency."""

    line: DealLine
    approved: Decimal
    rate: str
    basis: str
    units: str
    flight: str
    flight_confirmed: str
    glyph: str
    word: str
    budget_change: str
    other: tuple[str, ...]

    @property
    def differs(self) -> bool:
        return bool(self.budget_change or self.other)

    @property
    def facts(self) -> str:
        bound = "guaranteed" if self.line.guaranteed else "non-guaranteed"
        return f"{self.line.channel}, {self.line.pricing_model.upper()} {self.rate}, {bound}"

    @property
    def bought(self) -> str:
        return f"{self.line.channel}, {self.units}" if self.units else self.line.channel


@dataclass(frozen=True, kw_only=True)
class DealGroup:
    """A deal with its packages. `notes` say what stands out, in grey beside its reference. `confirmed` is
    None as long as the seller has confirmed nothing. `known`: who knows of what was booked differently, and
    `known_link` where; `more`: packages beyond those shown."""

    deal: Deal
    link: str
    rows: tuple[LineRow, ...]
    notes: tuple[str, ...]
    approved: Decimal
    confirmed: Decimal | None
    known: str = ""
    known_link: str = ""
    more: int = 0

    @property
    def undecided(self) -> bool:
        """Put forward, not approved."""
        return self.deal.status in UNDECIDED

    @property
    def unapproved(self) -> bool:
        """Adopted, and nobody has approved it yet."""
        return self.deal.unapproved

    @property
    def unconfirmed(self) -> str:
        """What stands where the seller has confirmed no amount."""
        if self.deal.media_buy_id:
            return "not stated"
        return text.DASH if self.deal.status in _OWN_GLYPHS else "not yet"


def deal_group(deal: Deal, rows: DealRows, decisions: Mapping[uuid.UUID, Sequence[Decision]]) -> DealGroup:
    """A deal as the campaign's and its own page show it. `decisions`: on the approvals about it."""
    lines = rows.lines.get(deal.pk, [])
    purchase = rows.purchase(deal)
    found = tuple(_line_row(deal, line, purchase) for line in lines)
    gross = rows.gross.get(deal.pk)
    asked = _asked_about(deal, rows)
    if asked is not None and not (deal.differences or asked.status == ApprovalStatus.APPROVED):
        asked = None  # the seller took it back
    return DealGroup(
        deal=deal,
        link=link_to(Deal, deal.pk),
        rows=found,
        notes=tuple(_notes(deal, rows, purchase)),
        approved=gross.approved if gross else Decimal(0),
        confirmed=gross.confirmed if gross else None,
        more=gross.packages - len(lines) if gross else 0,
        known=known_words(asked, decisions.get(asked.pk, ())) if asked else "",
        known_link=link_to(Approval, asked.pk) if asked else "",
    )


def known_words(asked: Approval, decisions: Sequence[Decision]) -> str:
    """Who knows of a departure: who is asked about it since when, or who decided on it."""
    if asked.status == ApprovalStatus.OPEN:
        return f"approvers of {asked.team} are asked since {text.moment_short(asked.created_at)}"
    at = text.moment_short(asked.status_since)
    by = joined([decision.actor_name for decision in decisions])
    if asked.status == ApprovalStatus.APPROVED:
        return f"accepted by {by or 'an approver'}, {at}"
    if asked.status == ApprovalStatus.REJECTED:
        return f"refused by {by or 'an approver'}, {at}: the seller is asked to cancel"
    return f"approvers of {asked.team} were asked, nobody decided by {at}"


def change_words(approved: Decimal, confirmed: Decimal, currency: str) -> str:
    """−3,500.00, −5.7 %; empty where they are the same."""
    if approved == confirmed:
        return ""
    sign = "+" if confirmed > approved else ""
    share = text.number((confirmed - approved) / approved * 100, 1) if approved else text.DASH
    return f"{sign}{text.amount(confirmed - approved, currency)}, {sign}{share}{text.SPACE}%"


def departure_sentences(group: DealGroup) -> list[str]:
    """Every departure in words, for the banner."""
    deal, many = group.deal, len(group.rows) > 1
    said = ["nobody has approved it yet"] if group.unapproved else []
    for row in group.rows:
        where = f"{row.line.product_name}: " if many else ""
        if row.budget_change and row.line.confirmed_budget is not None:
            said.append(f"{where}{_budget_words(row.approved, row.line.confirmed_budget, deal.currency)}")
        said += [f"{where}{other}" for other in row.other]
    for found in deal.differences:
        if found["field"] == CURRENCY:
            said.append(f"in {found['confirmed']}, not {found['approved']}")
        elif found["field"] == PACKAGE:
            amount = _amount_stated(found["confirmed"], deal.currency)
            said.append(f"package {found['product']} for {amount}, which nobody ordered")
        elif found["line"] == 0:
            said.append(_other_words(found))
    return said


def _other_words(found: Mapping[str, Any]) -> str:
    """impressions 900, not 1000."""
    approved = f", not {found['approved']}" if found["approved"] else ""
    return f"{found['field'].replace('_', ' ')} {found['confirmed']}{approved}"


def _budget_words(approved: Decimal, confirmed: Decimal, currency: str) -> str:
    amounts = f"{text.amount(confirmed, currency)} for {text.amount(approved, currency)}"
    return f"budget {amounts} ({change_words(approved, confirmed, currency).partition(', ')[2]})"


def _amount_stated(value: str, currency: str) -> str:
    return text.stated(value) if decimal_of(value) is None else text.amount(value, currency)


def group_change(group: DealGroup) -> str:
    """The deal's whole departure in money, empty where there is none, or nothing was approved."""
    if group.confirmed is None or group.unapproved:
        return ""
    return change_words(group.approved, group.confirmed, group.deal.currency)


def departure_words(lines: Sequence[DealLine], deal: Deal, ordered: Decimal) -> str:
    """with 3,500.00 less and a later start; empty where it was booked as approved. `ordered`: what all its
    packages come to, those among `lines` or not."""
    fields = {found["field"] for found in deal.differences if "unreadable" not in found}
    changed = departs_by(deal, ordered)
    said = []
    if changed:
        said.append(f"{text.amount(abs(changed), deal.currency)} {'more' if changed > 0 else 'less'}")
    if "start" in fields:
        late = any(line.confirmed_start_at and line.confirmed_start_at > line.start_at for line in lines)
        said.append(f"{'a later' if late else 'an earlier'} start")
    if "end" in fields:
        late = any(line.confirmed_end_at and line.confirmed_end_at > line.end_at for line in lines)
        said.append(f"{'a later' if late else 'an earlier'} end")
    said += [f"another {name}" for name in ("rate", "targeting") if name in fields]
    return f"with {joined(said)}" if said else ""


def mirror_facts(deal: Deal) -> list[tuple[str, str]]:
    """What the seller says of the media buy, as facts: label and words."""
    account, unread = deal.account, unread_of(deal)
    facts = [
        ("Creatives due", creatives_due(deal, unread)),
        ("May do", ", ".join(str(action) for action in deal.valid_actions)),
        ("Account", f"{account}, {account.get_status_display()}" if account else "none yet"),
        ("Amounts", unstated(deal)),
        ("Not counted", _RAN if ran_uncounted(deal) else ""),
        ("Invoiced to", _invoiced(deal)),
        ("Wire", f"{deal.seller.get_protocol_display()}, webhooks {deal.seller.get_webhook_mode_display()}"),
        *_reading_facts(deal, getattr(deal, "mirror", None)),
        ("Confirmed", _as_stated(unread, "confirmed_at")),
        ("State as of", _as_stated(unread, "status_as_of")),
        ("Revision", _as_stated(unread, "revision")),
        ("Adopted", str(deal.reasons.get("adopted", ""))),
        ("In place of", str(deal.reasons.get("replaces", ""))),
    ]
    return [(label, words) for label, words in facts if words]


def unread_of(deal: Deal) -> dict[str, str]:
    """What the seller states of a deal's media buy and nobody can read, by its AdCP names, as stated."""
    kept: DealMirror | None = getattr(deal, "mirror", None)
    return dict(kept.as_stated) if kept else {}


def creatives_due(deal: Deal, unread: Mapping[str, str]) -> str:
    """Until when creatives are due, as stated where nobody can read it; empty where nothing is stated.
    `unread`: what nobody can read of its media buy."""
    said, before = _as_stated(unread, "creative_deadline"), deal.creative_deadline
    if said and before:
        return f"{said}, before that {text.moment(before)}"
    return said or (text.moment(before) if before else "")


def _as_stated(unread: Mapping[str, str], name: str) -> str:
    return f"as stated: {unread[name]}" if name in unread else ""


def _reading_facts(deal: Deal, kept: DealMirror | None) -> list[tuple[str, str]]:
    """When the media buy is read again, and why the latest reading told nothing."""
    if kept is None:
        return []
    final = {True: "final", False: "not final yet", None: ""}[kept.final]
    return [
        ("Delivery", final if deal.media_buy_status == "completed" else ""),
        ("Began anew", kept.restarted),
        ("Not read", f"{kept.unread} ({plural(kept.failures, 'time')})" if kept.failures else kept.unread),
        ("Read again", text.moment(kept.due_at) if kept.due_at else ""),
    ]


def seller_note(deal: Deal) -> str:
    """seller says pending_creatives, due Fri 20 Nov, 17:00."""
    if not deal.media_buy_status:
        return ""
    due = ""
    if deal.creative_deadline and deal.media_buy_status == "pending_creatives":
        due = f", due {text.moment(deal.creative_deadline)}"
    return f"seller says {deal.media_buy_status}{due}"


def operation_note(operation: Operation, answers: Answers | None = None) -> str:
    """What the open purchase waits for: next poll in 4 m 10 s, overdue today 13:30. `answers`: ours to
    sellers, read here where they are not given."""
    answers = answers_of([operation]) if answers is None else answers
    if operation.status == O.INPUT_REQUIRED and answers.of(operation) is None:
        asked = f": {operation.message}" if operation.message else ""
        return f"asks you since {text.moment_short(operation.status_since)}{asked}"
    following = operation_next(operation, answers=answers)
    said = f"{lowered(following.what)} {following.when}".strip()
    late = operation.status != O.TIMED_OUT and not is_held(operation)
    if late and following.until is not None:
        ends = "fails" if operation.status == O.REQUESTED else "overdue"
        said += f", {ends} {text.moment_short(following.until)}"
    return said


def _asked_about(deal: Deal, rows: DealRows) -> Approval | None:
    """The latest question about what was booked differently."""
    asked = [a for a in rows.asked.get(deal.pk, ()) if a.kind == DIFFERENT]
    return max(asked, key=lambda a: (a.status == ApprovalStatus.OPEN, a.pk), default=None)


def _line_row(deal: Deal, line: DealLine, purchase: Operation | None) -> LineRow:
    approved = line_amounts(deal, line).approved
    departs = any(found["line"] == line.position for found in deal.differences)
    glyph, word = _line_state(deal, departs, purchase)
    return LineRow(
        line=line,
        approved=approved,
        rate=_rate(line.rate, deal.currency),
        basis=terms.rate_basis(line.pricing_model, line.is_fixed),
        units=_units(line),
        glyph=glyph,
        word=word,
        flight=_flight(line.start_at, line.end_at, deal.zone),
        flight_confirmed=_confirmed_flight(deal, line),
        budget_change=change_words(approved, line.confirmed_budget, deal.currency)
        if line.confirmed_budget is not None and not deal.unapproved
        else "",
        other=tuple(_departures(deal, line)),
    )


def _line_state(deal: Deal, departs: bool, purchase: Operation | None) -> tuple[str, str]:
    if departs and deal.differs:
        return "differs", "Booked differently"
    if (
        deal.status == S.BOOKING
        and purchase is not None
        and purchase.status in (O.SUBMITTED, O.WORKING, O.INPUT_REQUIRED, O.AUTH_REQUIRED, O.TIMED_OUT)
    ):
        return face(purchase.status)
    return face(deal.status)


def _departures(deal: Deal, line: DealLine) -> Iterable[str]:
    for found in deal.differences:
        field = found["field"]
        if found["line"] != line.position or (field == "budget" and "unreadable" not in found):
            continue
        if "unreadable" in found or field in ("product_id", "pricing_option_id"):
            yield _other_words(found)
        elif field == "start":
            yield f"starts {_not(line.confirmed_start_at, line.start_at, 'start', deal.zone)}"
        elif field == "end":
            yield f"ends {_not(line.confirmed_end_at, line.end_at, 'end', deal.zone)}"
        elif field == "rate":
            yield f"rate {_rate(line.confirmed_rate, deal.currency)}, not {_rate(line.rate, deal.currency)}"
        elif field == "targeting":
            confirmed = terms.targeting(line.confirmed_targeting) or "none"
            yield f"targeting {confirmed}, not {terms.targeting(line.targeting) or 'none'}"
        elif field in ("paused", "canceled"):
            word = {"paused": "paused", "canceled": "cancelled"}[field]
            yield word if found["confirmed"] == "yes" else f"not {word}"


def _not(confirmed: datetime | None, approved: datetime, name: str, zone: str) -> str:
    """The one day and the other; the hour or the year where the days do not tell them apart."""
    short = _first_day if name == "start" else _last_day
    told = [short(at, zone) for at in (confirmed, approved)]
    if confirmed is not None and (told[0] == told[1] or confirmed.year != approved.year):
        told = [text.flight_edge(name, at, zone) for at in (confirmed, approved)]
    return f"{told[0]}, not {told[1]}"


def _notes(deal: Deal, rows: DealRows, purchase: Operation | None) -> Iterable[str]:
    if purchase is not None and purchase.settled_at is None:
        yield operation_note(purchase, rows.answers)
    said = seller_note(deal)
    if said:
        yield said
    if unstated(deal):
        yield "states no amounts"
    if ran_uncounted(deal):
        yield _RAN
    if deal.status in _OWN_GLYPHS and purchase is not None and purchase.message:
        yield purchase.message[:200]
    for question in rows.open_questions(deal)[:1]:
        yield f"{question.reference} is due {text.moment_short(question.due_at)}"


def _confirmed_flight(deal: Deal, line: DealLine) -> str:
    if line.confirmed_start_at is None and line.confirmed_end_at is None:
        return "not stated" if deal.status in CONFIRMED else "not yet"
    return _flight(line.confirmed_start_at or line.start_at, line.confirmed_end_at or line.end_at, deal.zone)


def _flight(start: datetime, end: datetime, zone: str) -> str:
    """23 Nov – 20 Dec: the year is in the page's head."""
    return f"{_short_day(start, zone)} {text.DASH} {_last_day(end, zone)}"


def _first_day(start: datetime | None, zone: str) -> str:
    return text.DASH if start is None else _short_day(start, zone)


def _last_day(end: datetime | None, zone: str) -> str:
    return text.DASH if end is None else _short(days.last_day(end, zone))


def _short_day(at: datetime, zone: str) -> str:
    return _short(days.day_of(at, zone))


def _short(day: date) -> str:
    return f"{day.day}{text.SPACE}{day:%b}"


def _units(line: DealLine) -> str:
    word, units = terms.units_word(line.pricing_model), line.units
    if units is None or not word:
        return ""
    return f"{text.number(units, 1 if line.pricing_model == 'cpp' else 0)} {word}"


def _rate(rate: Decimal | None, currency: str) -> str:
    """At least the currency's decimals, more where the rate has them."""
    if rate is None:
        return text.DASH
    exact, usual = text.number(rate), text.amount(rate, currency)
    return exact if len(exact.partition(".")[2]) > len(usual.partition(".")[2]) else usual


def _invoiced(deal: Deal) -> str:
    if deal.account is None:
        return ""
    parts = [deal.account.billing_party or deal.advertiser.name, terms.payment(deal.account.payment_terms)]
    return joined([part for part in parts if part]).replace(" and ", ", ")


def stated_terms(line: DealLine) -> dict[str, Any]:
    return line.terms if isinstance(line.terms, dict) else {}


def deal_name(deal: Deal, campaign: str) -> EntityName:
    """How a deal is called: by its seller, as part of its campaign, with what is wrong with it."""
    glyph = "differs" if deal.differs else _OWN_GLYPHS.get(DealStatus(deal.status), "")
    note = "differs" if deal.differs else face(deal.status).word.lower() if glyph else ""
    return EntityName(
        reference=deal.reference,
        name=deal.seller.name,
        link=link_to(Deal, deal.pk),
        part_of=campaign,
        glyph=glyph,
        note=note,
    )


def _names(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, EntityName]:
    deals = deal_names(ids)
    campaigns = names_of("campaign", {deal.campaign_id for deal in deals if deal.campaign_id})
    called = {pk: str(name) for pk, name in campaigns.items()}
    return {
        deal.pk: deal_name(deal, called.get(deal.campaign_id, "") if deal.campaign_id else "")
        for deal in deals
    }


namer_register("deal", _names)
