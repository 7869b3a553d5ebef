"""Flightdeck's own settings and the bench's recipes: what its worker cluster runs on."""

from config.settings import *  # noqa: F403 - settings are names
from config.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "bench.jobs.recipes.BenchConfig"]
