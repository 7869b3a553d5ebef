from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("orders", "0018_confirmed_gross")]

    operations = [
        migrations.AddField(model_name="dealmirror", name="as_stated", field=models.JSONField(default=dict)),
    ]
