"""Verifies the whole trail of deals beside reading and hashing the same bytes, and says how fast; for
`bench.transitions`, in a process of its own: `python -m bench.verification ROUND`, ours first in odd ones.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable

import psycopg
from psycopg.types.string import ByteaBinaryLoader

from bench.parties import django_ours

_CHUNK = 1000
# All that a verification looks at of an entry; none of it is made into anything.
_BYTES = """
select body, entity_id, seq, from_status, to_status, at, actor, reason, metadata, changes, trace_id,
       format_version, prev_hash, hash
  from tasks_app_auditentry where entity_type = 'deal' order by entity_id, seq
"""
_AS_BYTES = ("uuid", "timestamptz", "jsonb", "text", "varchar")


def verified() -> tuple[int, int]:
    """Entries, and chains that do not verify."""
    from tasks_app.lifecycle.verify import verify_all

    entries = broken = 0
    for _, verification in verify_all("deal"):
        entries += verification.entries
        broken += not verification.ok
    return entries, broken


def hashed() -> tuple[int, int]:
    """The same entries in the same order, every column read, the body hashed; nothing compared."""
    entries = 0
    with psycopg.connect(os.environ["DATABASE_URL"]) as reader:
        reader.execute("set local transaction_timeout = 0")
        with reader.cursor("bytes", binary=True) as cursor:
            cursor.itersize = _CHUNK
            for kind in _AS_BYTES:
                cursor.adapters.register_loader(kind, ByteaBinaryLoader)
            for body, *_ in cursor.execute(_BYTES):
                hashlib.sha256(body).digest()
                entries += 1
    return entries, 0


def main() -> int:
    django_ours()
    order = (verified, hashed) if int(sys.argv[1]) % 2 else (hashed, verified)
    told = {work.__name__: _timed(work) for work in order}
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)
    seconds, entries, broken = told["verified"]
    print(
        json.dumps(
            {
                "entries": entries,
                "seconds": seconds,
                "ratio": told["hashed"][0] / seconds,
                "rss_mb": rss,
                "broken": broken + (told["hashed"][1] != entries),
            }
        )
    )
    return 0


def _timed(work: Callable[[], tuple[int, int]]) -> tuple[float, int, int]:
    began = time.perf_counter()
    told = work()
    return time.perf_counter() - began, *told


if __name__ == "__main__":
    sys.exit(main())
