"""The database: the one named by ``DATABASE_URL``, or a private embedded PostgreSQL under ``var/``.

Settings call `database_urls`, which only computes. One supervisor (``make run``, ``make demo``, the test
session) calls `opened` or `start`; whatever ran before, killed or not, needs no clean-up by hand.
"""

from .addresses import APP_ROLE, DATABASE, OWNER_ROLE, Address, DatabaseUrls, data_dir, database_urls
from .engine import PostgresError
from .server import RunningPostgres, connection_hint, erase, opened, revive, start

__all__ = [
    "APP_ROLE",
    "DATABASE",
    "OWNER_ROLE",
    "Address",
    "DatabaseUrls",
    "PostgresError",
    "RunningPostgres",
    "connection_hint",
    "data_dir",
    "database_urls",
    "erase",
    "opened",
    "revive",
    "start",
]
