"""Entries and events are written by the database's own functions alone, which run as their owner; every entry
has a typed actor and a reason; what is refused says what was tried, for the application to tell."""

from django.db import migrations

from tasks_app.lifecycle.install import (
    install_audit,
    install_enforcement,
    install_enforcement_shared,
    install_move,
)


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0008_jobs_steered")]
    operations = [
        install_audit(),
        install_enforcement_shared(),
        install_move("operation", "tasks_app_operation"),
        install_move("approval", "tasks_app_approval"),
        install_move("job", "tasks_app_job"),
        install_move("step", "tasks_app_step"),
        install_enforcement("operation", "tasks_app_operation", "requested"),
        install_enforcement("approval", "tasks_app_approval", "open"),
        install_enforcement("job", "tasks_app_job", "PENDING"),
        install_enforcement("step", "tasks_app_step", "received"),
    ]
