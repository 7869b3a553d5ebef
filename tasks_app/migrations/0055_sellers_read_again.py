"""When a seller is asked again what it can do."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0054_whose_it_was_about"),
    ]

    operations = [
        migrations.AddField(
            model_name="seller",
            name="capabilities_next_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
    ]
