"""Further contradictions that came while one of their kind was open are counted."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0055_sellers_read_again"),
    ]

    operations = [
        migrations.AddField(
            model_name="conflict",
            name="more",
            field=models.PositiveIntegerField(default=0),
        ),
    ]
