"""A tiny webhook receiver: keeps what arrives, answers what the test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support import until


@dataclass(frozen=True)
class Delivery:
    """One POST as it came in."""

    url: str
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> dict[str, Any]:
        return json.loads(self.body)


class Receiver:
    """Context manager; `refuse` makes the next so many deliveries a 503. `busy`, where it is given, says of
    each the seconds after which to come again (429), or None."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.refuse = 0
        self.busy: Callable[[], int | None] | None = None
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *args: Any) -> None:
                return

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                url = f"http://{self.headers['Host']}{self.path}"
                receiver.deliveries.append(Delivery(url, dict(self.headers.items()), body))
                refused, receiver.refuse = receiver.refuse > 0, max(0, receiver.refuse - 1)
                wait = receiver.busy() if receiver.busy is not None else None
                self.send_response(503 if refused else 200 if wait is None else 429)
                if wait is not None:
                    self.send_header("Retry-After", str(wait))
                self.send_header("Content-Length", "0")
                self.end_headers()

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def url(self, operation_id: str) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/webhooks/adcp/{operation_id}"

    def of(self, operation_id: str) -> list[Delivery]:
        return [d for d in self.deliveries if d.content["operation_id"] == operation_id]

    def until(self, operation_id: str, status: str) -> Delivery:
        """The first delivery of an operation with that task status."""

        def found() -> Delivery | None:
            return next((d for d in self.of(operation_id) if d.content["status"] == status), None)

        return until(found, f"{operation_id} is {status}")
