"""Splitting a budget by channel: fixed amounts first, then by weight, no channel below its minimum."""

from __future__ import annotations

from decimal import Decimal

from campaigns.brief import Budget, ChannelWish
from tasks_app import money


def allocate(budget: Budget, channels: tuple[ChannelWish, ...]) -> dict[str, Decimal]:
    """Channel to amount, in minor units, adding up to the total exactly; channels that would get
    nothing are left out. The brief was validated: minimums and fixed amounts are in minor units and fit
    into the total, so that never all channels fall short at once."""
    parts: dict[str, Decimal] = {wish.channel: wish.fixed for wish in channels if wish.fixed is not None}
    free: dict[str, ChannelWish] = {wish.channel: wish for wish in channels if wish.fixed is None}
    left = budget.total - sum(parts.values(), Decimal(0))
    while free:
        shares = money.split(left, {name: wish.weight for name, wish in free.items()}, budget.currency)
        short = {n: w.minimum for n, w in free.items() if w.minimum is not None and shares[n] < w.minimum}
        if not short:
            parts |= shares
            break
        parts |= short
        left -= sum(short.values(), Decimal(0))
        free = {name: wish for name, wish in free.items() if name not in short}
    return {name: amount for name, amount in parts.items() if amount > 0}
