"""Driver of the fake seller: starts its process and controls it from a test.

Example:
    with FakeSeller(tmp_path) as seller:
        seller.fault("create_media_buy", "drop")
        ...
        assert len(seller.books()) == 1
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from demo.ports import free_port
from tests.ending import line_of
from tests.fake_seller.books import Books, Json
from tests.fake_seller.faults import KINDS

HOST = "127.0.0.1"
_ROOT = Path(__file__).resolve().parents[2]


class FakeSeller:
    """A seller's process, as a context manager. `folder` holds its books, which survive `kill()`.

    `mode` answers a purchase: "completed" at once, or "submitted" and completed by the time of the next
    question. `channel` is the channel of its product, `protocol` "mcp" or "a2a".
    """

    def __init__(
        self, folder: Path, *, mode: str = "completed", channel: str = "display", protocol: str = "mcp"
    ) -> None:
        self.token = secrets.token_hex(24)
        self.path = folder / f"fake-seller-{uuid.uuid4().hex[:8]}.db"
        self.port = free_port()  # no outgoing connection gets it while the seller is down
        self._protocol = protocol
        self._options = ["--mode", mode, "--channel", channel, "--protocol", protocol]
        self._process: subprocess.Popen[str] | None = None
        Books(self.path).close()

    @property
    def url(self) -> str:
        """Return the MCP endpoint or the address of the A2A agent."""
        return f"http://{HOST}:{self.port}{'/mcp' if self._protocol == 'mcp' else ''}"

    @property
    def keys_url(self) -> str:
        """Return where the keys are that verify its webhooks."""
        return f"http://{HOST}:{self.port}/jwks.json"

    @property
    def environment(self) -> dict[str, str]:
        """Return what the process needs in its environment."""
        return {"FAKE_SELLER_TOKEN": self.token}

    def command(self, *interpreter_options: str) -> list[str]:
        """Return the command line of the process."""
        module = [sys.executable, *interpreter_options, "-m", "tests.fake_seller"]
        return [*module, "--port", str(self.port), "--books", str(self.path), *self._options]

    def __enter__(self) -> FakeSeller:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start the process, on the same port each time. Return when it listens."""
        self._process = process = subprocess.Popen(
            self.command("-S"),
            cwd=_ROOT,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            if not line_of(process.stdout):
                raise RuntimeError(f"the fake seller did not start (exit {process.wait()})")
        except BaseException:  # the caller has no block yet that ends the process
            self.kill()
            raise

    def kill(self) -> None:
        """Kill the process (SIGKILL)."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()

    def restart(self) -> None:
        self.kill()
        self.start()

    def script(self, product_id: str, **script: Any) -> None:
        """Plan how the purchase of a product goes: fields of `books.DEFAULT_SCRIPT`."""
        with closing(Books(self.path)) as books:
            books.add_script(product_id, script)

    def fault(
        self, tool: str, kind: str, times: int = 1, *, product_id: str | None = None, **params: Any
    ) -> None:
        """Plan a fault for the next `times` calls of a tool (0: all). `faults` lists the kinds.

        Raises:
            ValueError: There is no such kind of fault.
        """
        if kind not in KINDS:
            raise ValueError(f"no such fault: {kind}")
        with closing(Books(self.path)) as books:
            books.add_fault(tool, {"kind": kind, **params}, times=times, product_id=product_id)

    def clear(self) -> None:
        """Remove every planned fault."""
        with closing(Books(self.path)) as books:
            books.execute("delete from faults")

    def release(self) -> None:
        """Answer all calls that hang. Until the next start, no call hangs."""
        assert self._process is not None
        self._process.send_signal(signal.SIGUSR1)

    def books(self) -> list[Json]:
        """Return every media buy with its `idempotency_key` and `product_id`, oldest first."""
        return [
            {"idempotency_key": row["key"], "product_id": row["product_id"], **json.loads(row["body"])}
            for row in self.rows("select * from buys order by rowid")
        ]

    def requests(self, tool: str | None = None) -> list[Json]:
        """Return every authenticated call as `{tool, arguments, at}`, oldest first."""
        return [
            {"tool": row["tool"], "arguments": json.loads(row["arguments"]), "at": row["at"]}
            for row in self.rows("select * from requests order by id")
            if tool in (None, row["tool"])
        ]

    def rows(self, query: str) -> Sequence[Any]:
        """Return rows of the books."""
        with closing(Books(self.path)) as books:
            return books.rows(query)
