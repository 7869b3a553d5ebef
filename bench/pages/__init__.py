"""How fast pages and decisions are on a database that was worked in for years: `make bench-pages`. Read
__main__ first."""

import os

# Sizes; QUICK=1 makes them small, to try the bench itself: its figures then say little.
QUICK = os.environ.get("QUICK", "") not in ("", "0")
DEALS = 10_000 if QUICK else 1_000_000
AUDIT_ENTRIES = 60_000 if QUICK else 5_000_000
APPROVALS = 500 if QUICK else 50_000
BOOKING = 10 if QUICK else 200  # campaigns whose purchases are with sellers
REQUESTS = 20 if QUICK else 100  # of each page in a round
DECISIONS = 10 if QUICK else 40  # in a round
STOCK = "stock"  # the address and the templates of the list that all is measured beside
SELLERS = 10  # each campaign has a deal with each
OPEN = -(-DECISIONS // SELLERS)  # campaigns whose questions a round decides on
SIZES = (DEALS, AUDIT_ENTRIES, APPROVALS, BOOKING, SELLERS)
