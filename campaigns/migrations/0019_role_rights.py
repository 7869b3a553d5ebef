"""Notes stand in the trail of campaigns, as in that of every other entity."""

from django.db import migrations

from tasks_app.lifecycle.install import install_enforcement, install_move


class Migration(migrations.Migration):
    dependencies = [("campaigns", "0018_definers"), ("tasks_app", "0035_role_rights")]
    operations = [
        install_move("campaign", "campaigns_campaign"),
        install_enforcement("campaign", "campaigns_campaign", "initialized"),
    ]
