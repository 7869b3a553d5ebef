"""The one way a campaign changes its status."""

from django.db import migrations

from tasks_app.lifecycle.install import create_sequence, install_move


class Migration(migrations.Migration):
    dependencies = [("campaigns", "0002_initial"), ("tasks_app", "0002_lifecycle")]
    operations = [install_move("campaign", "campaigns_campaign"), create_sequence("fd_ref_campaign")]
