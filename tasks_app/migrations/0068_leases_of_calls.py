"""A lease is one call's: an older call of the same operation gives nothing of it back."""

from django.db import migrations, models

import tasks_app.ids


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0067_questions_looked_at_again")]
    operations = [
        # What is out during the upgrade is nobody's any more: it runs out.
        migrations.AddField(
            model_name="calllease",
            name="call",
            field=models.UUIDField(default=tasks_app.ids.new_id, editable=False),
        ),
    ]
