"""The web process: `config.web` serves this. Only web processes pool their connections."""

import gc
import os
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
os.environ.setdefault("FLIGHTDECK_DB_POOL", "1")

from django.conf import settings
from django.core.asgi import get_asgi_application

_django = get_asgi_application()

from django.urls import get_resolver  # noqa: E402 (Django is set up first)

from config.edge import Edge, KnownMethods, WholeInstallation  # noqa: E402
from config.middleware import TrustedProxies  # noqa: E402
from tasks_app.api.streams import Streams  # noqa: E402
from tasks_app.webhooks.edge import WebhookEdge  # noqa: E402

application = TrustedProxies(
    WholeInstallation(KnownMethods(WebhookEdge(Edge(Streams(_django))))), settings.PROXIES
)
# Templates and the like come with the first pages: so many full collections still find something that stays.
_SETTLING = 6


def _keep_what_is_loaded() -> None:
    """Take what stays for good out of the collector’s sight. A full collection walks all it sees, amid a
    request: with all that is loaded that took a tenth of a second, and doubled the slowest pages.

    What a request holds in that moment is no longer searched for cycles either: a few pages’ worth in all.
    """
    assert get_resolver().url_patterns  # noqa: S101 - pages are loaded with their addresses
    gc.collect()
    gc.freeze()
    left = _SETTLING

    def settled(phase: str, info: dict[str, Any]) -> None:
        nonlocal left
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()
            left -= 1
            if not left:
                gc.callbacks.remove(settled)

    gc.callbacks.append(settled)


_keep_what_is_loaded()
