"""A seller that misbehaves on request: a small MCP server process, and the class that drives it from a test.

It speaks enough MCP over streamable HTTP (JSON answers, no session) and enough AdCP to be bought from, and
starts at once:

    with FaultySeller(tmp_path) as seller:
        seller.fault("create_media_buy", "drop")
        ...
        assert len(seller.books()) == 1

Kinds of fault, each for the next `times` calls of one tool ("*": any; 0 times: until `clear()`):

| kind           | parameters                     | the buyer sees                                       |
|----------------|--------------------------------|------------------------------------------------------|
| `http`         | `status` (500)                 | that HTTP status with a text body                    |
| `html`         |                                | 200, an HTML page                                    |
| `truncated`    |                                | 200, the right answer cut in its middle              |
| `status`       | `status` ("requires_approval") | that task status, with a task_id when buying         |
| `huge`         | `bytes` (11 MiB)               | the right answer with padding of that size           |
| `hang`         | `seconds` (120)                | the right answer so much later, or at `release()`    |
| `new_task_id`  |                                | the right answer with another task_id than before    |
| `drop`         |                                | carried out, then the connection closes unanswered   |
| `refuse`       |                                | the connection closes, nothing is carried out        |
| `unauthorized` |                                | 401                                                  |
| `in_flight`    | `retry_after` (1)              | IDEMPOTENCY_IN_FLIGHT with retry_after               |
| `error`        | `code`, `message`, `recovery`  | that AdCP error                                      |
| `crash`        |                                | isError with text only, no structured content        |
| `merge`        | `answer` (object)              | the right answer with those keys put over it         |

The request is carried out before the fault, except with `refuse`, `unauthorized`, `in_flight`, `error`,
`crash`, and with `before=True`.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import urllib.request
import uuid
from pathlib import Path
from typing import Any

from demo.ports import free_port
from tests.ending import line_of
from tests.sellers.faulty_server import CONTROL_HEADER, HOST
from tests.support import PATIENCE_S

_ROOT = Path(__file__).resolve().parents[1]
KINDS = frozenset(
    {
        "http",
        "html",
        "truncated",
        "status",
        "huge",
        "hang",
        "new_task_id",
        "drop",
        "refuse",
        "unauthorized",
        "in_flight",
        "error",
        "crash",
        "merge",
    }
)


class FaultySeller:
    """The process as a context manager. `mode` and `channel` as of `Shop`; `folder` keeps its books."""

    def __init__(self, folder: Path, *, mode: str = "completed", channel: str = "display") -> None:
        self.token = secrets.token_hex(24)
        self._control = secrets.token_hex(24)
        self._state = folder / f"faulty-{uuid.uuid4().hex[:8]}.json"
        self._arguments = ["--mode", mode, "--channel", channel, "--state", str(self._state)]
        self._process: subprocess.Popen[str] | None = None
        self.port = free_port()  # no outgoing connection has it while the seller is down

    @property
    def url(self) -> str:
        """The MCP endpoint."""
        return f"http://{HOST}:{self.port}/mcp"

    def __enter__(self) -> FaultySeller:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start the process, on the same port each time; returns when it listens."""
        environment = {**os.environ, "FAULTY_TOKEN": self.token, "FAULTY_CONTROL": self._control}
        command = [sys.executable, "-S", "-m", "tests.sellers.faulty_server", *self._arguments]
        self._process = process = subprocess.Popen(
            [*command, "--port", str(self.port)],
            cwd=_ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            line = line_of(process.stdout)
            if not line:
                raise RuntimeError(f"the faulty seller did not start (exit {process.wait()})")
            self.port = int(line)
        except BaseException:  # no block's end stops what did not start
            self.kill()
            raise

    def kill(self) -> None:
        """SIGKILL: whatever it was doing is lost, its books are not."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()
            if process.stdout:
                process.stdout.close()

    def restart(self) -> None:
        self.kill()
        self.start()

    def fault(self, tool: str, kind: str, times: int = 1, **params: Any) -> None:
        """Misbehave at the next `times` calls of `tool` (0: from now on). Kinds: the module's table.

        Raises:
            ValueError: no such kind of fault.
        """
        if kind not in KINDS:
            raise ValueError(f"no such fault: {kind}")
        self._ask("/control/faults", {**params, "tool": tool, "kind": kind, "times": times})

    def clear(self) -> None:
        """Forget every fault that still waits."""
        self._ask("/control/clear", {})

    def release(self) -> None:
        """Whatever hangs is answered; until it is started again, nothing hangs any more."""
        self._ask("/control/release", {})

    def books(self) -> list[dict[str, Any]]:
        """Every media buy that was booked, with its `idempotency_key`; oldest first."""
        return self._ask("/control/books")

    def requests(self, tool: str | None = None) -> list[dict[str, Any]]:
        """Every tools/call that came in, faults included: `{tool, arguments, at}`; oldest first."""
        made = self._ask("/control/requests")
        return [request for request in made if tool in (None, request["tool"])]

    def _ask(self, path: str, order: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            f"http://{HOST}:{self.port}{path}",
            data=None if order is None else json.dumps(order).encode(),
            headers={CONTROL_HEADER: self._control},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)
