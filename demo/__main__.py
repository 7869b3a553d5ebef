"""`python -m demo`: the whole of Flightdeck on real input. `--headless` tells it without a person."""

from __future__ import annotations

import argparse
import sys

from config.postgres import PostgresError
from config.processes import ProcessError, interruptible
from config.supervisor import MigrationError
from demo.run import DemoError, erase, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--headless", action="store_true", help="decide through the API, print tables, stop")
    parser.add_argument("--reset", action="store_true", help="forget everything the demo has made")
    options = parser.parse_args()
    try:
        with interruptible():
            return erase() if options.reset else run(headless=options.headless)
    except KeyboardInterrupt:
        print("\nStopped. The next make demo goes on from here; make demo-reset begins anew.")
        return 0
    except (DemoError, PostgresError, ProcessError, MigrationError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
