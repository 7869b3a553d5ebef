"""Flightdeck's own settings, with a head on each answer that says what it took, and a stock list beside."""

from pathlib import Path

import django.contrib

from bench.pages import STOCK
from config.settings import *  # noqa: F403 - settings are names
from config.settings import MIDDLEWARE, TEMPLATES

MIDDLEWARE = ["bench.pages.taken.taken", *MIDDLEWARE]
ROOT_URLCONF = "bench.pages.stock"
# Django's own templates of the admin: unfold's go before them everywhere else.
TEMPLATES = [
    *TEMPLATES,
    {
        **TEMPLATES[0],
        "NAME": STOCK,
        "DIRS": [Path(django.contrib.__file__).parent / "admin" / "templates"],
        "APP_DIRS": False,
    },
]
