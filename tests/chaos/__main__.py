"""`make chaos`. Environment: OPERATIONS (1000), SEED (1), CHAOS_HOME (var/chaos), and CHAOS_MIGRATED=1 if
CHAOS_HOME already holds a migrated database.

Exit code 0: every condition holds. 1: one does not. 2: the run could not be set up. CHAOS_HOME keeps the log
and the sellers' books until the next run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from config import postgres
from config.processes import ProcessError, interruptible
from config.supervisor import BASE_DIR
from tests.chaos.plan import plan
from tests.chaos.product import Product, StartError


def main() -> int:
    operations, seed = _number("OPERATIONS", 1000), _number("SEED", 1)
    home = Path(os.environ.get("CHAOS_HOME") or BASE_DIR / "var" / "chaos").resolve()
    scenarios = plan(seed=seed, operations=operations)
    product = Product(home, scenarios, migrated=os.environ.get("CHAOS_MIGRATED") == "1")
    try:
        with interruptible(), product:
            product.start()
            # Only now: the settings read the environment that the product has set.
            import django

            os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
            django.setup()
            from tests.chaos.run import play

            return play(product, scenarios, seed=seed)
    except KeyboardInterrupt:
        return 130
    except (StartError, ProcessError, postgres.PostgresError) as error:
        print(f"chaos: {error}", file=sys.stderr)
        return 2


def _number(name: str, default: int) -> int:
    value = os.environ.get(name) or str(default)
    if not value.isdecimal() or int(value) < 1:
        print(f"chaos: {name} must be a whole number above 0, not {value!r}", file=sys.stderr)
        raise SystemExit(2)
    return int(value)


if __name__ == "__main__":
    sys.exit(main())
