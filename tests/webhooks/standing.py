"""What a web process serves, its clock standing at the moment that the environment names."""

from __future__ import annotations

import os
from datetime import datetime

from config.asgi import application
from tasks_app import clock

__all__ = ["application"]
_moment = datetime.fromisoformat(os.environ["STANDS_AT"])
_standing = clock.injected(lambda: _moment)
_standing.__enter__()  # for as long as the process lives
