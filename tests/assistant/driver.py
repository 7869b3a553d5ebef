"""Driver of the scripted model server: starts its process and controls it from a test.

Example:
    with ModelServer() as server:
        server.script([{"text": "Two buys."}, {"fault": "drop"}])
        ...
        assert len(server.requests()) == 2
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx

from tests.assistant.model_server import HOST, Json
from tests.ending import end, line_of
from tests.support import PATIENCE_S

_ROOT = Path(__file__).resolve().parents[2]


class ModelServer:
    """A model server's process, as a context manager. `model_server` lists the behaviours of a script."""

    def __enter__(self) -> ModelServer:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-m", "tests.assistant.model_server"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self._address = f"http://{HOST}:{int(line_of(self._process.stdout))}"
        except BaseException:  # the caller has no block yet that ends the process
            end(self._process)
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        end(self._process)

    @property
    def url(self) -> str:
        """Return the base address for a client."""
        return f"{self._address}/v1"

    def script(self, behaviours: Sequence[Json]) -> None:
        """Plan the answers to the next requests, in place of those still planned."""
        self._call("POST", "/script", list(behaviours))

    def reset(self) -> None:
        """Remove the script and all requests, and end what stalls."""
        self._call("POST", "/reset", {})

    def requests(self) -> list[Json]:
        """Return every completion request as `{body, headers}`, oldest first; without keys."""
        return list(self._call("GET", "/requests"))

    def _call(self, method: str, path: str, content: Any = None) -> Any:
        address = f"{self._address}{path}"
        answer = httpx.request(method, address, json=content, trust_env=False, timeout=PATIENCE_S)
        return answer.raise_for_status().json()
