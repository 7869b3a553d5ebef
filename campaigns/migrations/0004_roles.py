"""The role groups, the system actor, and the wake-up of the sweep."""

from django.apps import apps as live_apps
from django.apps.registry import Apps
from django.contrib.auth.management import create_permissions
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def fill(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    # Django makes permissions only after all migrations; the groups need them now.
    for config in live_apps.get_app_configs():
        create_permissions(config, verbosity=0)
    from tasks_app.people.roles import roles_sync

    roles_sync()
    apps.get_model("tasks_app", "Actor").objects.get_or_create(
        key="system", defaults={"kind": "system", "name": "System"}
    )
    apps.get_model("django_q", "Schedule").objects.get_or_create(
        name="sweep",
        defaults={
            "func": "tasks_app.jobs.worker.sweep_slice",
            "schedule_type": "I",
            "minutes": 1,
            "repeats": -1,
        },
    )


class Migration(migrations.Migration):
    dependencies = [
        ("campaigns", "0003_lifecycle"),
        ("orders", "0003_lifecycle"),
        ("tasks_app", "0002_lifecycle"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("contenttypes", "0002_remove_content_type_name"),
        ("django_q", "0019_alter_task_options_alter_ormq_key_alter_ormq_lock_and_more"),
    ]
    operations = [migrations.RunPython(fill, migrations.RunPython.noop)]
