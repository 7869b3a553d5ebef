"""Which changes another record of the media buy than their own answer showed."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("orders", "0021_mirrors_begun_anew")]
    operations = [
        migrations.AddField(model_name="dealmirror", name="shown", field=models.JSONField(default=list)),
    ]
