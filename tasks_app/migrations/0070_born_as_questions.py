"""Approvals, jobs and steps are never born elsewhere than at their beginning, in an import either; a finding that is
still found is not forgotten."""

from django.db import migrations

from tasks_app.lifecycle.install import install_enforcement, install_kept


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0069_contradicting_deliveries")]
    operations = [
        install_enforcement("approval", "tasks_app_approval", "open"),
        install_enforcement("job", "tasks_app_job", "PENDING"),
        install_enforcement("step", "tasks_app_step", "received"),
        install_kept(),
    ]
