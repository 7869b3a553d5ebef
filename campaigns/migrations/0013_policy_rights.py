"""Roles may read approval policies and exchange rates, Administrators change them."""

from django.apps import apps as live_apps
from django.apps.registry import Apps
from django.contrib.auth.management import create_permissions
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def sync(_apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    # Django makes permissions only after all migrations; the groups need them now.
    for config in live_apps.get_app_configs():
        create_permissions(config, verbosity=0)
    from tasks_app.people.roles import roles_sync

    roles_sync()


class Migration(migrations.Migration):
    dependencies = [
        ("campaigns", "0012_schedule_rights"),
        ("tasks_app", "0022_policies"),
    ]
    operations = [migrations.RunPython(sync, migrations.RunPython.noop)]
