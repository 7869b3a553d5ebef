"""When a seller came to state what departs from what was approved."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("orders", "0024_last_words")]
    operations = [
        migrations.AddField(
            model_name="dealmirror", name="differs_at", field=models.DateTimeField(null=True)
        ),
    ]
