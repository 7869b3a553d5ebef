"""The web process: uvicorn serves this. Only web processes pool their connections."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
os.environ.setdefault("FLIGHTDECK_DB_POOL", "1")

from django.core.asgi import get_asgi_application

application = get_asgi_application()
