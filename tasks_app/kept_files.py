"""Files that are made once and kept, such as keys: whole at any moment, whoever else makes them."""

from __future__ import annotations

import os
import secrets
from functools import partial
from pathlib import Path


def file_made_once(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Put `content` there unless something is there. It is written beside it and linked to its name, so that
    nobody ever reads a part, and none is left where this ends in between; who comes second changes
    nothing. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with open(draft, "xb", opener=partial(os.open, mode=mode)) as file:
        file.write(content)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
