"""What comes in and what the sender is told: plain records between the HTTP edge and the rest of the room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

A2A_TOKEN = "x-a2a-notification-token"  # noqa: S105 (a header's name)


@dataclass(frozen=True, kw_only=True)
class Incoming:
    """One POST. `url` is absolute, as the sender addressed it; names of `headers` are in lower case, and of
    several of one name the values are joined with a comma; `source` is the sender's address; `may_fetch`: a
    seller may be asked for its keys while this waits."""

    seller: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    source: str
    may_fetch: bool = True


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the sender is told: HTTP status, a word for the body, and headers."""

    status: int
    word: str
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> dict[str, str]:
        return {"status" if self.status < 400 else "error": self.word}


LATER = Answer(status=503, word="unavailable", headers={"Retry-After": "2"})  # it may come again
