"""Functions of campaigns that run as their owner name the schema of whatever they touch."""

from django.db import migrations

from tasks_app.lifecycle.install import install_enforcement, install_move


class Migration(migrations.Migration):
    dependencies = [("campaigns", "0017_page_indexes"), ("tasks_app", "0028_definers")]
    operations = [
        install_move("campaign", "campaigns_campaign"),
        install_enforcement("campaign", "campaigns_campaign", "initialized"),
    ]
