"""The part of RFC 8941 structured fields that signatures use: dictionaries of inner lists and of byte
sequences.

The byte sequences of adcp/webhook-signing/v1 are unpadded base64url between colons, which RFC 8941 parsers
refuse; Content-Digest comes in standard base64 from the SDKs and the vectors, in base64url by the prose: both
are read.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass

MAX_HEADER_CHARS = 8192

Bare = str | int | bool

_KEY = re.compile(r"[a-z*][a-z0-9_\-.*]*", re.ASCII)
_STRING = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"', re.ASCII)
_INTEGER = re.compile(r"-?[0-9]{1,15}(?![0-9.])", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z*][A-Za-z0-9!#$%&'*+\-.^_`|~:/]*", re.ASCII)
_BYTES = re.compile(r":([A-Za-z0-9+/_=-]*):", re.ASCII)
_BOOLEAN = re.compile(r"\?([01])", re.ASCII)
_OWS = re.compile(r"[ \t]*")
_SP = re.compile(r" *")


class FieldError(ValueError):
    """A header that is no structured field of the expected form."""


@dataclass(frozen=True, kw_only=True)
class InnerList:
    """One member of Signature-Input: covered components, parameters, and its exact text, which is what was
    signed."""

    components: tuple[str, ...]
    params: Mapping[str, Bare]
    text: str


class _Reader:
    def __init__(self, text: str) -> None:
        if len(text) > MAX_HEADER_CHARS:
            raise FieldError("the header is too long")
        self.text = text
        self.at = 0

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def take(self, literal: str) -> bool:
        if self.text.startswith(literal, self.at):
            self.at += len(literal)
            return True
        return False

    def expect(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        found = self.match(pattern)
        if found is None:
            raise FieldError(f"expected {what}")
        return found

    @property
    def ended(self) -> bool:
        return self.at == len(self.text)

    def next_member(self) -> bool:
        """Step over the comma to the next dictionary member; False at the end."""
        self.match(_OWS)
        if self.ended:
            return False
        if not self.take(","):
            raise FieldError("expected a comma")
        self.match(_OWS)
        if self.ended:
            raise FieldError("a comma ends the header")
        return True


def parse_signature_input(text: str) -> dict[str, InnerList]:
    """Label to inner list, in order; raises FieldError. A repeated label or parameter is refused."""
    members: dict[str, InnerList] = {}
    reader = _Reader(text.strip(" "))
    if reader.ended:
        raise FieldError("the header is empty")
    while True:
        label = reader.expect(_KEY, "a label").group()
        if label in members or not reader.take("="):
            raise FieldError("a label is repeated or has no value")
        start = reader.at
        components = _components(reader)
        params = _params(reader)
        members[label] = InnerList(components=components, params=params, text=reader.text[start : reader.at])
        if not reader.next_member():
            return members


def parse_byte_dictionary(text: str) -> dict[str, str]:
    """Label to the encoded text between the colons (Signature, Content-Digest); raises FieldError."""
    members: dict[str, str] = {}
    reader = _Reader(text.strip(" "))
    if reader.ended:
        raise FieldError("the header is empty")
    while True:
        label = reader.expect(_KEY, "a label").group()
        if label in members or not reader.take("="):
            raise FieldError("a label is repeated or has no value")
        members[label] = reader.expect(_BYTES, "a byte sequence").group(1)
        _params(reader)
        if not reader.next_member():
            return members


def decode_base64url(encoded: str) -> bytes:
    """Unpadded base64url, and nothing else; raises FieldError."""
    if re.search(r"[^A-Za-z0-9_-]", encoded) or len(encoded) % 4 == 1:
        raise FieldError("not unpadded base64url")
    decoded = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    if base64.urlsafe_b64encode(decoded).rstrip(b"=").decode() != encoded:
        raise FieldError("not canonical base64url")
    return decoded


def decode_either_base64(encoded: str) -> bytes:
    """Padded standard base64, or unpadded base64url; never a mixture. Raises FieldError."""
    if not re.search(r"[+/=]", encoded):
        try:
            return decode_base64url(encoded)
        except FieldError:
            pass  # a standard value whose padding happens to be absent is refused below
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise FieldError("not base64") from error


def _components(reader: _Reader) -> tuple[str, ...]:
    if not reader.take("("):
        raise FieldError("expected a list")
    found: list[str] = []
    while True:
        spaces = reader.expect(_SP, "a space").group()
        if reader.take(")"):
            return tuple(found)
        if found and not spaces:
            raise FieldError("components stand without a space between them")
        name = _unescape(reader.expect(_STRING, "a component").group(1))
        if reader.text.startswith(";", reader.at):
            raise FieldError("component parameters are not part of the profile")
        if name in found:
            raise FieldError("a component is covered twice")
        found.append(name)


def _params(reader: _Reader) -> dict[str, Bare]:
    params: dict[str, Bare] = {}
    while reader.take(";"):
        reader.match(_SP)
        name = reader.expect(_KEY, "a parameter").group()
        if name in params:
            raise FieldError("a parameter is repeated")
        params[name] = _bare(reader) if reader.take("=") else True
    return params


def _bare(reader: _Reader) -> Bare:
    if found := reader.match(_STRING):
        return _unescape(found.group(1))
    if found := reader.match(_INTEGER):
        return int(found.group())
    if found := reader.match(_BOOLEAN):
        return found.group(1) == "1"
    if found := reader.match(_TOKEN):
        return found.group()
    raise FieldError("a parameter has no readable value")


def _unescape(quoted: str) -> str:
    return re.sub(r'\\(["\\])', r"\1", quoted)
