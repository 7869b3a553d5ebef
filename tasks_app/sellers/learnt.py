"""What calls have taught of a seller, beside what it says of itself: in words, for its page.

Quirks are kept until the seller says otherwise; what other rooms have evidence of they tell for their time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tasks_app.adcp.optional import BESIDE, OMIT, SEND
from tasks_app.adcp.tasks import LIST_TOOL_NAMES, STATUS_TOOL_NAMES, task_list_tool
from tasks_app.adcp.types import QUIRK_A2A_PARAMETERS
from tasks_app.desk.items import plural
from tasks_app.sellers.models import Account, Seller

_NEWEST = {STATUS_TOOL_NAMES[0]: "told of one task", LIST_TOOL_NAMES[0]: "asked for its tasks"}


@dataclass(frozen=True, kw_only=True)
class Learnt:
    """One thing that a seller does otherwise: `what` it does, `so` what is done about it; `quirk` where
    people may have it forgotten."""

    what: str
    so: str
    quirk: str = ""


LearntReader = Callable[[Seller], Sequence[Learnt]]
_readers: list[LearntReader] = []


def learnt_register(reader: LearntReader) -> None:
    """Called by a room that has evidence, when the application starts."""
    if reader not in _readers:
        _readers.append(reader)


def learnt_of(seller: Seller, accounts: Iterable[Account]) -> list[Learnt]:
    """All that is learnt of a seller; of its accounts those that the viewer may see."""
    return [
        *(_of_quirk(quirk) for quirk in sorted(seller.quirks)),
        *_of_tools(seller),
        *_of_accounts(accounts),
        *(one for reader in _readers for one in reader(seller)),
    ]


def _of_quirk(quirk: str) -> Learnt:
    if quirk == QUIRK_A2A_PARAMETERS:
        return Learnt(
            what="Its card does not declare AdCP's profile",
            so="Arguments are sent as parameters, as before 3.0",
        )
    verb, _, rest = quirk.partition(" ")
    tool, _, argument = rest.partition(" ")
    if verb == OMIT:
        beside = BESIDE.get((tool, argument))
        where = f", where {beside} is sent" if beside else ""
        refused, asked = f"Refused {tool} for {argument}", f"{tool} is asked without {argument}{where}"
        return Learnt(what=refused, so=asked, quirk=quirk)
    if verb == SEND:
        refused, asked = f"Refused {tool} without {argument}", f"{tool} is asked with {argument}"
        return Learnt(what=refused, so=asked, quirk=quirk)
    return Learnt(what=quirk, so="It is asked accordingly", quirk=quirk)


def _of_tools(seller: Seller) -> list[Learnt]:
    used = (seller.task_tool, task_list_tool(seller.tools))
    return [
        Learnt(what=f"Has no {newest}, but {tool}", so=f"It is {what} by {tool}")
        for (newest, what), tool in zip(_NEWEST.items(), used, strict=True)
        if tool not in (None, newest, seller.status_tool)
    ]


def _of_accounts(accounts: Iterable[Account]) -> list[Learnt]:
    refused = sum(account.refused_reference is not None for account in accounts)
    if not refused:
        return []
    return [
        Learnt(
            what=f"Handed out {plural(refused, 'account id')} that it then refused",
            so="Named by brand and operator instead",
        )
    ]
