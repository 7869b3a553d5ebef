"""What people said of one waiting at gates lets a command pass once, and never in another round."""

from django.db import migrations

from tasks_app.lifecycle.install import install_kept


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0075_answers_that_left")]
    operations = [install_kept()]
