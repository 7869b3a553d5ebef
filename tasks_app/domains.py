"""Domain names, as settings and forms take them."""

from __future__ import annotations

import re

_DOMAIN = re.compile(r"([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]")
DOMAIN_HINT = "a domain such as example.com, without https:// and without a path"


def is_domain(text: str) -> bool:
    """Return whether the text is a domain in lower case."""
    return bool(_DOMAIN.fullmatch(text)) and len(text) <= 253
