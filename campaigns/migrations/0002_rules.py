"""Triggers and numbers of campaigns."""

from django.db import migrations

from tasks_app.lifecycle.install import create_sequence, install_entity


class Migration(migrations.Migration):
    dependencies = [("campaigns", "0001_initial"), ("tasks_app", "0002_rules")]
    operations = [
        create_sequence("fd_ref_campaign"),
        *install_entity("campaign", "campaigns_campaign", moved=["problems", "outcome"]),
    ]
