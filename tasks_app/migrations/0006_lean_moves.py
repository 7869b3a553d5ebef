"""The functions of every status change made anew: fewer statements and no planning on each call."""

from django.db import migrations

from tasks_app.lifecycle.install import (
    install_audit,
    install_enforcement,
    install_enforcement_shared,
    install_move,
)


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0005_events")]
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
