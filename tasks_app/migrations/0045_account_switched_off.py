"""Who here switched an account off: its seller's word does not switch it on again."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0044_kept_answers")]
    operations = [
        migrations.AddField(
            model_name="account",
            name="switched_off_by",
            field=models.CharField(blank=True, editable=False, max_length=80),
        ),
    ]
