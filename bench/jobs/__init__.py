"""How fast jobs run, beside durable engines: `make bench-jobs`. Read __main__ first."""

import os

# Sizes; QUICK=1 makes them small, to try the bench itself: its figures then say little.
QUICK = os.environ.get("QUICK", "") not in ("", "0")
CHAIN = 10  # steps of the chain that every party runs
JOBS = 20 if QUICK else 150  # chains in one measurement
WARM = 5 if QUICK else 30  # chains before it
LONG = 100  # steps of a longer chain, and how many of those the widest job has
WIDE = 2 if QUICK else 100
ITEMS = 100  # of a fan-out, each of NAP_S
NAP_S = 0.01
FANOUTS = 1 if QUICK else 5
ASIDE = 16  # naps that a worker of ours may have out, and of a peer's where it is told so
WAKEUPS = 20 if QUICK else 200
WAKEUPS_IN_TURN = 10
WAITING = 1_000 if QUICK else 100_000
