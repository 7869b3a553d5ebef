"""``python -m config.postgres stop|erase``: the embedded database by hand."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import PostgresError, data_dir, erase, start


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m config.postgres", description="The embedded database.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("stop", help="stop a server that a killed supervisor left running")
    commands.add_parser("erase", help="delete the embedded database and all it holds")
    command = parser.parse_args().command
    base_dir = Path(__file__).resolve().parents[2]
    try:
        if command == "erase":
            print("The database was deleted." if erase(base_dir) else "There is no database to delete.")
        elif (data_dir(base_dir) / "PG_VERSION").exists():
            start(base_dir).stop()
            print("Nothing of the embedded database runs, unless a supervisor still uses it.")
    except PostgresError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
