"""`make chaos`: the whole run. Environment: OPERATIONS (1000), SEED (1), CHAOS_HOME (var/chaos), and
CHAOS_MIGRATED (1: an embedded database with all migrations run, and nothing in it, is in CHAOS_HOME already).

Exit code 0 when every invariant holds, 1 when one does not, 2 when the run could not be set up. What a run
leaves (log, the sellers' books) stays in CHAOS_HOME until the next.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.chaos.plan import plan
from bench.chaos.stage import Stage, StageError
from config import postgres
from config.processes import ProcessError, interruptible
from config.supervisor import BASE_DIR

_LARGE = 1000


def main() -> int:
    operations, seed = _number("OPERATIONS", 1000), _number("SEED", 1)
    home = Path(os.environ.get("CHAOS_HOME") or BASE_DIR / "var" / "chaos").resolve()
    stage = Stage(home, seed=seed, operations=operations, migrated=os.environ.get("CHAOS_MIGRATED") == "1")
    try:
        with interruptible(), stage:
            stage.start()
            return _play(stage, seed=seed, operations=operations)
    except KeyboardInterrupt:
        return 130
    except (StageError, ProcessError, postgres.PostgresError) as error:
        print(f"chaos: {error}", file=sys.stderr)
        return 2


def _play(stage: Stage, *, seed: int, operations: int) -> int:
    # Django is set up only now: its settings read the environment that the stage has made.
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    from bench.chaos.run import play

    scripts = plan(seed=seed, operations=operations)
    return play(stage, scripts, seed=seed, rounds=3 if operations >= _LARGE else 1)


def _number(name: str, default: int) -> int:
    given = os.environ.get(name) or str(default)
    if not given.isdecimal() or int(given) < 1:
        raise SystemExit(f"chaos: {name} must be a whole number above 0, not {given!r}")
    return int(given)


if __name__ == "__main__":
    sys.exit(main())
