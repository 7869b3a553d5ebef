"""PostgreSQL refuses every undeclared or unaudited status change of a campaign."""

from django.db import migrations

from tasks_app.lifecycle.install import install_enforcement


class Migration(migrations.Migration):
    dependencies = [("campaigns", "0004_roles"), ("tasks_app", "0004_enforcement")]
    operations = [install_enforcement("campaign", "campaigns_campaign", "initialized")]
