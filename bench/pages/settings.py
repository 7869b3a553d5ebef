"""Flightdeck's own settings, a stock list of deals beside its pages, and the server's time in each answer."""

from pathlib import Path

import django.contrib

from config.settings import *  # noqa: F403
from config.settings import MIDDLEWARE, TEMPLATES

MIDDLEWARE = ["bench.pages.stock.timed", *MIDDLEWARE]
ROOT_URLCONF = "bench.pages.stock"
# Django's own admin templates: unfold replaces them everywhere else.
TEMPLATES = [
    *TEMPLATES,
    {
        **TEMPLATES[0],
        "NAME": "stock",
        "DIRS": [Path(django.contrib.__file__).parent / "admin" / "templates"],
        "APP_DIRS": False,
    },
]
