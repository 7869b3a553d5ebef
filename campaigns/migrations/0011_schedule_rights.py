"""Roles may see schedules and outside events, and some may make them; the sweep needs no schedule any more: the
pushers of its lane see that one runs."""

from django.apps import apps as live_apps
from django.apps.registry import Apps
from django.contrib.auth.management import create_permissions
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def sync(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    # Django makes permissions only after all migrations; the groups need them now.
    for config in live_apps.get_app_configs():
        create_permissions(config, verbosity=0)
    from tasks_app.people.roles import roles_sync

    roles_sync()
    apps.get_model("django_q", "Schedule").objects.filter(name="sweep").delete()
    # Wake-ups of the one queue there was: rows are looked at anew.
    apps.get_model("django_q", "OrmQ").objects.filter(key="flightdeck").delete()


class Migration(migrations.Migration):
    dependencies = [
        ("campaigns", "0010_reconciliation_rights"),
        ("tasks_app", "0018_schedules"),
        ("django_q", "0019_alter_task_options_alter_ormq_key_alter_ormq_lock_and_more"),
    ]
    operations = [migrations.RunPython(sync, migrations.RunPython.noop)]
