"""What moves or is noted changes the columns that are named for it, and no other."""

from django.db import migrations

from tasks_app.lifecycle.install import (
    install_changes,
    install_enforcement,
    install_move,
)


class Migration(migrations.Migration):
    dependencies = [("campaigns", "0019_role_rights"), ("tasks_app", "0050_named_changes")]
    operations = [
        install_changes("campaign", moved=["problems", "outcome"], noted=[]),
        install_move("campaign", "campaigns_campaign"),
        install_enforcement("campaign", "campaigns_campaign", "initialized"),
    ]
