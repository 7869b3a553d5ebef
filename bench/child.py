"""A child process that a bench tells what to do: one JSON list a line, answered by one line of JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from config.supervisor import BASE_DIR


class Child:
    """A process that runs `serve`. Use as a context manager.

    Args:
        module: What Python runs (`python -m`).
        arguments: Its arguments.
        env: Its whole environment.
    """

    def __init__(self, module: str, *arguments: str, env: Mapping[str, str]) -> None:
        self._module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=BASE_DIR,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Child:
        self.answer()  # it is ready
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def tell(self, order: str, *arguments: object) -> None:
        """Send an order; `answer` has to follow."""
        assert self._process.stdin is not None  # noqa: S101 - a pipe
        print(json.dumps([order, *arguments]), file=self._process.stdin, flush=True)

    def answer(self) -> Any:
        """Wait for the answer to the last order. Raises SystemExit if the process has ended."""
        assert self._process.stdout is not None  # noqa: S101 - a pipe
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._module} has ended")
        return json.loads(line)

    def ask(self, order: str, *arguments: object) -> Any:
        """Send an order and wait for its answer."""
        self.tell(order, *arguments)
        return self.answer()


def serve(orders: Mapping[str, Callable[..., Any]]) -> None:
    """Carry out orders from standard input until it ends."""
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        order, *arguments = json.loads(line)
        print(json.dumps(orders[order](*arguments)), flush=True)
