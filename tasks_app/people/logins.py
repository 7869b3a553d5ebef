"""Names of logins."""

from __future__ import annotations

import re

LOGIN_CHARS = 150
_OTHER = re.compile(r"[^\w.@+-]")


def login_of_mail(mail: str) -> str:
    """Return the name by which a person with this mail address logs in."""
    return _OTHER.sub("_", mail.lower())
