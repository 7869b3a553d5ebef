"""People's last words on a media buy's name, pauses and pacing."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("orders", "0023_changes_shown_ahead")]
    operations = [
        migrations.AddField(model_name="dealmirror", name="last_words", field=models.JSONField(default=dict)),
    ]
