"""`make mutants`; what it may be told stands in `sample.Wanted`."""

from __future__ import annotations

import sys

import pytest

from tests.mutants.modules import MODULES
from tests.mutants.sample import Wanted


def main() -> int:
    wanted = Wanted.of_environment()
    unknown = [module for module in wanted.modules if module not in MODULES]
    if unknown:
        sys.stderr.write(f"no such modules: {' '.join(unknown)}; known: {' '.join(MODULES)}\n")
        return 2
    paths = sorted({path for module in wanted.modules for path in MODULES[module]})
    alone = ["-q", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-profile=ci"]
    return pytest.main([*alone, "-p", "tests.mutants.plugin", *sys.argv[1:], *paths])


if __name__ == "__main__":
    sys.exit(main())
