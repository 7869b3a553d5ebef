"""Of the bodies that come under a used delivery key the first that differs is kept, the rest are counted."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0061_messages_due_again")]
    operations = [
        migrations.AddField(
            model_name="webhookdelivery",
            name="others",
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(
                condition=models.Q(("body__isnull", False), ("verdict", "key_conflict")),
                fields=["seller", "at"],
                name="delivery_contradicts",
            ),
        ),
    ]
