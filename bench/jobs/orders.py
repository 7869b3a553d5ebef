"""Processes that are told what to do, line by line, and answer with one line of JSON each time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from config.supervisor import BASE_DIR

Answer = dict[str, Any]


class EndedError(Exception):
    """A process of the bench ended; its log says why."""


class Teller:
    """The side that tells. Use as a context manager: leaving it ends the process."""

    def __init__(self, module: str, *arguments: str, env: Mapping[str, str], log: TextIO) -> None:
        self._name = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=BASE_DIR,
            env={**os.environ, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )

    def __enter__(self) -> Teller:
        try:
            self.answer()  # it is ready
        except BaseException:  # whatever it was, an interrupt too: the process is not left behind
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def tell(self, order: str, *arguments: float) -> None:
        """Give an order; raises EndedError. `answer` follows."""
        assert self._process.stdin is not None  # noqa: S101 - a pipe, as it was started
        try:
            self._process.stdin.write(" ".join([order, *map(str, arguments)]) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise EndedError(self._name) from None

    def answer(self) -> Answer:
        """What came of the last order. Raises EndedError."""
        assert self._process.stdout is not None  # noqa: S101
        line = self._process.stdout.readline()
        if not line:
            raise EndedError(self._name)
        answer: Answer = json.loads(line)
        return answer

    def ask(self, order: str, *arguments: float) -> Answer:
        self.tell(order, *arguments)
        return self.answer()


def serve(handlers: Mapping[str, Callable[..., Answer | None]]) -> None:
    """The side that is told: until its input ends. Arguments arrive as whole numbers."""
    _say({"ready": True})
    for line in sys.stdin:
        order, *arguments = line.split()
        _say(handlers[order](*map(int, arguments)) or {})


def _say(answer: Answer) -> None:
    print(json.dumps(answer), flush=True)
