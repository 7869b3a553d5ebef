"""Texts that people cannot tell apart, though they are written in other characters."""

from __future__ import annotations

import hashlib
import re
import unicodedata

# Unicode's Default_Ignorable_Code_Point beside the formats (Cf), and a blank that is no space.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)


def as_seen(text: str) -> str:
    """A text in NFKC, without characters that nobody sees, and without blanks around it."""
    seen = (c for c in unicodedata.normalize("NFKC", text) if not _is_invisible(c))
    return unicodedata.normalize("NFKC", "".join(seen)).strip()


def alike(text: str) -> str:
    """What two texts have in common that look the same, capitals and the width of blanks aside; to be
    compared, never to be kept in place of what was written."""
    return " ".join(as_seen(text).casefold().split())


def alike_digest(text: object) -> str:
    """Of texts that look the same the same 64 characters, to be kept and looked for; empty for no text."""
    if not isinstance(text, str) or not text:
        return ""
    return hashlib.sha256(alike(text).encode("utf-8", "surrogatepass")).hexdigest()


def _is_invisible(character: str) -> bool:
    hidden = unicodedata.category(character) in ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp")
    return hidden or _IGNORABLE.match(character) is not None
