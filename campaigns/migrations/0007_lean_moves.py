"""The functions of a campaign's status changes made anew, as those of every other entity."""

from django.db import migrations

from tasks_app.lifecycle.install import install_enforcement, install_move


class Migration(migrations.Migration):
    dependencies = [("campaigns", "0006_event_rights"), ("tasks_app", "0006_lean_moves")]
    operations = [
        install_move("campaign", "campaigns_campaign"),
        install_enforcement("campaign", "campaigns_campaign", "initialized"),
    ]
