"""The settings of a `manage.py worker` that plays random graphs."""

from config.settings import *  # noqa: F403
from config.settings import INSTALLED_APPS as _INSTALLED_APPS

INSTALLED_APPS = [*_INSTALLED_APPS, "tests.jobs.playing.PlayingConfig"]
