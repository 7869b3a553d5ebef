"""What the page of one approval shows of deciding: who has it, who may take it, whom one stands in for, the
thread, what changed since it was asked before, and what may be approved in part."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from tasks_app.adcp.values import parse_time
from tasks_app.approvals.changes import Change, evidence_changes
from tasks_app.approvals.claims import claimant_of
from tasks_app.approvals.deciders import deciders
from tasks_app.approvals.delegation import principals_of
from tasks_app.approvals.kinds import kind_of
from tasks_app.approvals.models import Approval, ApprovalStatus, Decision
from tasks_app.approvals.notes import thread_of
from tasks_app.approvals.records import Delegation
from tasks_app.desk import text
from tasks_app.money import decimal_of, is_currency
from tasks_app.people.actors import actor_key
from tasks_app.people.models import User

_MANY = 100  # people that a list to choose from holds
_NOTES = 200
_LONG = 300  # characters of a value that are shown

# Fields of a request to a seller as the rest of the evidence calls them.
_SENT_AS = {
    "packages": "lines",
    "targeting_overlay": "targeting",
    "bid_price": "rate",
    "start_time": "start",
    "end_time": "end",
}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One package that may be left out or bought for another amount."""

    number: int
    product: str
    channel: str
    budget: str
    least: str
    fixed: bool


@dataclass(frozen=True, kw_only=True)
class Marked:
    """One field that changed, in words."""

    field: str
    where: str
    before: str
    after: str
    kind: str


def deciding_data(
    approval: Approval,
    viewer: User,
    decisions: Collection[Decision],
    *,
    held: Collection[Delegation],
    names: Mapping[str, str],
    may: bool,
) -> dict[str, Any]:
    """What the templates of this room are given; `held`: the delegations in force that the viewer holds;
    `names`: by actor's key, that of `claimed_by` among them; `may`: the viewer can decide on it now."""
    holder = claimant_of(approval) if approval.status == ApprovalStatus.OPEN else ""
    return {
        "claimed_by": names.get(holder, holder),
        "claimed_by_me": holder == actor_key(viewer),
        "stands_in_for": principals_of(approval, held, decisions) if may else [],
        "others": _others(approval, viewer) if may else [],
        "thread": list(thread_of(approval)[:_NOTES]),
        "before": approval.replaces,
        "changed": changes_of(approval),
        "amendable": _lines(approval) if may else [],
    }


def lines_typed(lines: list[Line], typed: Mapping[str, str]) -> list[Line]:
    """Return the lines of the card "Approve in part" with the amounts that somebody typed."""
    return [replace(line, budget=typed.get(f"budget-{line.number}", line.budget)) for line in lines]


def changes_of(approval: Approval) -> list[Marked]:
    """What differs from the question in whose place it was asked; nothing where there was none."""
    before = approval.replaces
    if before is None:
        return []
    currency = str(approval.evidence.get("currency") or approval.currency)
    products = {**_products(before), **_products(approval)}
    found = evidence_changes(before.evidence, approval.evidence)
    told = {change.keys for change in found}
    return [_marked(one, currency, products) for one in found if _as_told(one.keys) not in told]


def _as_told(keys: tuple[str, ...]) -> tuple[str, ...]:
    """What tells the same as a field of the request that is sent; empty for what is none of that."""
    return tuple(_SENT_AS.get(key, key) for key in keys[1:]) if keys[0] == "sent" else ()


def _products(approval: Approval) -> dict[str, str]:
    """What names a line in a change to its product's name."""
    return {
        f"{line.get('product_id')} / {line.get('pricing_option_id')}": str(line.get("product", ""))
        for line in _evidence_lines(approval)
    }


def _marked(change: Change, currency: str, products: Mapping[str, str]) -> Marked:
    *where, field = change.keys
    if where == ["lines"]:  # the whole line
        return Marked(
            field="Package",
            where=products.get(field, field),
            before=_words("budget", _budget(change.before), currency),
            after=_words("budget", _budget(change.after), currency),
            kind=change.kind,
        )
    return Marked(
        field=field.replace("_", " ").capitalize(),
        where=", ".join(products.get(key, key.replace("_", " ")) for key in where if key != "lines"),
        before=_words(field, change.before, currency),
        after=_words(field, change.after, currency),
        kind=change.kind,
    )


def _words(field: str, value: Any, currency: str) -> str:
    if value is None or value == "":
        return text.DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_words(key, inner, currency)}" for key, inner in value.items())[:_LONG]
    if isinstance(value, list):
        return ", ".join(_words(field, inner, currency) for inner in value)[:_LONG] or text.DASH
    at = parse_time(value)
    if at is not None:
        return text.moment(at)
    is_money = field in ("budget", "gross", "minimum", "total_budget") and is_currency(currency)
    amount = decimal_of(value) if is_money else None
    return text.amount(amount, currency) if amount is not None else str(value)[:_LONG]


def _budget(line: Any) -> Any:
    return line.get("budget") if isinstance(line, dict) else line


def _others(approval: Approval, viewer: User) -> list[User]:
    """Who might take it: others who can decide on it, by name."""
    able = sorted(deciders([approval])[approval.pk], key=lambda user: (str(user), user.username))
    return [user for user in able if user != viewer][:_MANY]


def _lines(approval: Approval) -> list[Line]:
    try:
        if kind_of(approval).amend is None:
            return []
    except KeyError:
        return []
    currency = str(approval.evidence.get("currency") or approval.currency)
    return [
        Line(
            number=number,
            product=str(line.get("product", "")),
            channel=str(line.get("channel", "")),
            budget=_plain(decimal_of(line.get("budget"))),
            least=text.amount(decimal_of(line.get("minimum")), currency),
            fixed=line.get("rate_basis") == "flat_rate",
        )
        for number, line in enumerate(_evidence_lines(approval), start=1)
    ]


def _evidence_lines(approval: Approval) -> list[dict[str, Any]]:
    found = approval.evidence.get("lines")
    return [line for line in found if isinstance(line, dict)] if isinstance(found, list) else []


def _plain(amount: Decimal | None) -> str:
    """An amount for a field: no separators, no zeros that mean nothing."""
    if amount is None:
        return ""
    shown = f"{amount:f}"
    whole, _, rest = shown.partition(".")
    rest = rest.rstrip("0")
    return f"{whole}.{rest.ljust(2, '0')}" if rest else whole
