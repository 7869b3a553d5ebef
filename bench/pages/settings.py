"""Flightdeck's own settings, with a head on each answer that says what it took."""

from config.settings import *  # noqa: F403 - settings are names
from config.settings import MIDDLEWARE

MIDDLEWARE = ["bench.pages.taken.taken", *MIDDLEWARE]
