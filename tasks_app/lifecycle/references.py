"""References that people quote: DEAL-2026-000123. Unique, increasing, gaps allowed."""

from __future__ import annotations

from django.db import connection

from tasks_app import clock

_SEQUENCES = {
    "CMP": "fd_ref_campaign",
    "DEAL": "fd_ref_deal",
    "OP": "fd_ref_operation",
    "JOB": "fd_ref_job",
    "APR": "fd_ref_approval",
    "CFL": "fd_ref_conflict",
}


def next_reference(prefix: str) -> str:
    """The next reference of a kind (CMP, DEAL, OP, JOB, APR, CFL). Raises KeyError for another."""
    with connection.cursor() as cursor:
        cursor.execute("select nextval(%s)", [_SEQUENCES[prefix]])
        number = cursor.fetchone()[0]
    return f"{prefix}-{clock.now().year}-{number:06d}"
