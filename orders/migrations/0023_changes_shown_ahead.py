"""What a seller shows already of changes that are on their way."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("orders", "0022_changes_shown")]
    operations = [
        migrations.AddField(model_name="dealmirror", name="awaited", field=models.JSONField(default=list)),
    ]
