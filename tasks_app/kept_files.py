"""Files that are made once and kept, such as keys: whole at any moment, whoever else makes them."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from functools import partial
from pathlib import Path


def file_made_once(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Put `content` there unless something is there. It is written beside it and linked to its name, so that
    nobody ever reads a part, and none is left where this ends in between; who comes second changes
    nothing. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        with open(draft, "xb", opener=partial(os.open, mode=mode)) as file:
            file.write(content)
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
