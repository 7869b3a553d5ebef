"""The seller behind an address, from memory for a second: reading it decrypts its secrets.

A delivery that is refused by what is in memory is judged again by what is stored, so that a rotated secret or
a changed mode refuses nobody wrongly.
"""

from __future__ import annotations

import threading
import time

from tasks_app.sellers.models import Seller

_KEEP_S = 1.0
_MOST = 1000
_known: dict[str, tuple[float, Seller]] = {}
_lock = threading.Lock()


def seller_of(slug: str) -> tuple[Seller | None, bool]:
    """The seller and whether it was just read; None for one that nobody has asked for yet, which costs no
    query: see `seller_read`."""
    with _lock:
        kept = _known.get(slug)
    if kept is None:
        return None, False
    if time.monotonic() - kept[0] < _KEEP_S:
        return kept[1], False
    return seller_read(slug), True


def seller_remembered(slug: str) -> Seller | None:
    """The seller as it was last read, however long ago: for who may not ask the database."""
    with _lock:
        kept = _known.get(slug)
    return kept[1] if kept else None


def seller_read(slug: str) -> Seller | None:
    """The seller as it is stored."""
    seller = Seller.objects.filter(slug=slug).first()
    with _lock:
        if seller is None or len(_known) >= _MOST:
            _known.pop(slug, None)
        else:
            _known[slug] = (time.monotonic(), seller)
    return seller
