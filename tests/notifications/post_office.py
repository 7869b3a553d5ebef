"""A small SMTP server: keeps what it takes, refuses whom it is told to, calls back at each message."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from typing import Any

from tests.events.parts import relay


class PostOffice(socketserver.ThreadingTCPServer):
    """`taken` holds (recipient, message); recipients in `refused` are answered with 550."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.taken: list[tuple[str, Message]] = []
        self.refused: set[str] = set()
        self.on_data: Callable[[], None] = lambda: None

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def recipients(self) -> list[str]:
        return [recipient for recipient, _ in self.taken]


class _Session(socketserver.StreamRequestHandler):
    server: PostOffice

    def handle(self) -> None:
        self._say("220 post office")
        recipient = ""
        while line := self.rfile.readline().decode().strip():
            verb = line[:4].upper()
            if verb == "RCPT":
                recipient = line[line.index("<") + 1 : line.index(">")]
                self._say("550 nobody here" if recipient in self.server.refused else "250 ok")
            elif verb == "DATA":
                self.server.on_data()
                self._say("354 go on")
                self.server.taken.append((recipient, message_from_bytes(self._data())))
                self._say("250 taken")
            elif verb == "QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 ok")

    def _data(self) -> bytes:
        lines = []
        while (line := self.rfile.readline()) != b".\r\n":
            lines.append(line)
        return b"".join(lines)

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


@contextmanager
def opened() -> Iterator[PostOffice]:
    """The server, open within the block."""
    with PostOffice() as office:
        thread = threading.Thread(target=office.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield office
        finally:
            office.shutdown()
            thread.join()


@contextmanager
def mailing(settings: Any) -> Iterator[PostOffice]:
    """Mail goes to a server of our own, and subscribers begin here."""
    with opened() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        relay()  # subscribers begin with the first numbering
        yield server
