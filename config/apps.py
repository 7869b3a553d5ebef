"""The admin's place among the installed apps."""

from django.conf import settings
from django.contrib import admin
from django.contrib.admin.apps import SimpleAdminConfig


class AdminConfig(SimpleAdminConfig):
    """Django's admin; loaded at the start where pages are served, elsewhere when an address of a page is
    asked for (`config.urls`)."""

    def ready(self) -> None:
        super().ready()
        if settings.PAGES:
            admin.autodiscover()
