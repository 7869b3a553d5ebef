"""Logins are found by their name as it is kept (people.models.People): the state alone changes."""

from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0036_unverified_deliveries")]
    operations = [migrations.AlterModelManagers(name="user", managers=[])]
