"""An approval is decided as it was asked: no move and no note of it changes a column."""

from django.db import migrations

from tasks_app.lifecycle.install import install_enforcement, install_move


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0041_field_keys_kept")]
    operations = [
        install_move("approval", "tasks_app_approval"),
        install_enforcement("approval", "tasks_app_approval", "open"),
    ]
