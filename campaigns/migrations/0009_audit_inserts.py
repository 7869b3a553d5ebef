"""Entries of campaigns are written by the database's own functions alone, as those of every other entity."""

from django.db import migrations

from tasks_app.lifecycle.install import install_enforcement, install_move


class Migration(migrations.Migration):
    dependencies = [("campaigns", "0008_job_rights"), ("tasks_app", "0009_audit_inserts")]
    operations = [
        install_move("campaign", "campaigns_campaign"),
        install_enforcement("campaign", "campaigns_campaign", "initialized"),
    ]
