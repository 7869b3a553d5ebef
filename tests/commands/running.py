"""Running commands as an operator does, in this process or as one of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command

from tests.ending import ending
from tests.support import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Ran:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on standard output."""
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


def call(*arguments: str) -> Ran:
    """The command in this process."""
    out, err = StringIO(), StringIO()
    try:
        call_command(*arguments, stdout=out, stderr=err)
    except CommandError as error:
        return Ran(code=error.returncode, out=out.getvalue(), err=str(error))
    return Ran(code=0, out=out.getvalue(), err=err.getvalue())


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`manage.py …` as a process on the test's database, at most until the block ends."""
    pipe = subprocess.PIPE
    command = [sys.executable, "manage.py", *arguments]
    with ending(
        subprocess.Popen(command, cwd=ROOT, env=dict(os.environ), stdin=pipe, stdout=pipe, stderr=pipe)
    ) as process:
        yield process


def run(*arguments: str, stdin: bytes = b"") -> Ran:
    """`manage.py …` as a process, to its end."""
    with started(*arguments) as process:
        return ended(process, stdin=stdin)


def ended(process: subprocess.Popen[bytes], *, stdin: bytes = b"") -> Ran:
    """What a started process came to, within a minute."""
    out, err = process.communicate(stdin, timeout=PATIENCE_S)
    return Ran(code=process.returncode, out=out.decode(), err=err.decode())
