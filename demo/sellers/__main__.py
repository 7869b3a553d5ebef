"""`python -m demo.sellers serve --state DIR`: run the demonstration's sellers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from demo.sellers.catalogue import HOUSES
from demo.sellers.supervisor import Supervisor


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.sellers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="start the sellers and keep them running until SIGTERM")
    serve.add_argument(
        "--state", type=Path, required=True, help="folder for books, keys, ports and sellers.json"
    )
    serve.add_argument("--only", type=_slugs, default=list(HOUSES), help="some of: " + ",".join(HOUSES))
    serve.add_argument(
        "--pace", type=_seconds, default=4.0, help="seconds a seller's review takes (default 4)"
    )
    given = parser.parse_args(argv)
    try:
        Supervisor(given.state, given.only, pace=given.pace).run()
    except RuntimeError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def _slugs(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in HOUSES]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"choose among {', '.join(HOUSES)}")
    return list(dict.fromkeys(names))


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError("a number of seconds") from None
    if not 0 <= value <= 86_400:
        raise argparse.ArgumentTypeError("between 0 and 86400")
    return value


if __name__ == "__main__":
    sys.exit(main())
