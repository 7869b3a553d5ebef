"""The trail's functions and triggers, and the one way this app's entities change their status."""

from django.db import migrations

from tasks_app.lifecycle.install import create_sequence, install_audit, install_move


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0001_initial")]
    operations = [
        install_audit(),
        install_move("operation", "tasks_app_operation"),
        install_move("approval", "tasks_app_approval"),
        install_move("job", "tasks_app_job"),
        install_move("step", "tasks_app_step"),
        create_sequence("fd_ref_operation"),
        create_sequence("fd_ref_approval"),
        create_sequence("fd_ref_job"),
    ]
