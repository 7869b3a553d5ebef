"""A move from a status to itself is none; a brief that is submitted twice under one key is one campaign."""

from django.db import migrations, models

from tasks_app.lifecycle.install import install_enforcement


class Migration(migrations.Migration):
    dependencies = [("campaigns", "0020_named_changes"), ("tasks_app", "0073_moves_lead_somewhere")]
    operations = [
        migrations.AddField(
            model_name="campaign",
            name="request_key",
            field=models.CharField(blank=True, db_default="", default="", editable=False, max_length=64),
        ),
        migrations.AddField(
            model_name="campaign",
            name="request_digest",
            field=models.CharField(blank=True, db_default="", default="", editable=False, max_length=64),
        ),
        migrations.AddConstraint(
            model_name="campaign",
            constraint=models.UniqueConstraint(
                condition=models.Q(("request_key", ""), _negated=True),
                fields=("request_key",),
                name="campaign_once_per_request",
            ),
        ),
        install_enforcement("campaign", "campaigns_campaign", "initialized"),
    ]
