"""Flightdeck's own settings and the recipe of the bench."""

from config.settings import *  # noqa: F403
from config.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "bench.jobs.apps.BenchConfig"]
