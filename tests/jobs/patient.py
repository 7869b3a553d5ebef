"""The settings of a `manage.py worker` that takes as long to stop as a busy machine makes it."""

from django.apps import AppConfig

from config.settings import *  # noqa: F403
from config.settings import INSTALLED_APPS as _INSTALLED_APPS
from tests.support import PATIENCE_S


class PatientConfig(AppConfig):
    name = "tests.jobs"
    label = "patient"

    def ready(self) -> None:
        from tasks_app.jobs import cluster

        cluster._STOP_S = PATIENCE_S


INSTALLED_APPS = [*_INSTALLED_APPS, "tests.jobs.patient.PatientConfig"]
