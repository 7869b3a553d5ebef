"""Logins are called people, as the rail calls them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0026_page_indexes"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="user",
            options={"verbose_name": "person", "verbose_name_plural": "people"},
        ),
        migrations.AlterField(
            model_name="user",
            name="is_service",
            field=models.BooleanField(
                default=False,
                help_text="It acts as agent:<id> and never decides.",
                verbose_name="service account",
            ),
        ),
    ]
