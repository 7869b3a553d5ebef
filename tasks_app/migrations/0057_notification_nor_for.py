from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0056_conflicts_counted")]

    operations = [
        migrations.AddField(model_name="notification", name="nor_for", field=models.JSONField(default=list)),
    ]
