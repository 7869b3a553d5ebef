"""The web process: uvicorn serves this. Only web processes pool their connections."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
os.environ.setdefault("FLIGHTDECK_DB_POOL", "1")

from django.core.asgi import get_asgi_application

_django = get_asgi_application()

from tasks_app.api.streams import Streams  # noqa: E402 (Django is set up first)
from tasks_app.webhooks.edge import WebhookEdge  # noqa: E402

application = WebhookEdge(Streams(_django))
