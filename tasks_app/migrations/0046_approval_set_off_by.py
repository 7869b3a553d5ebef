"""Who set off what people are asked about, beside who asked for it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0045_account_switched_off")]
    operations = [
        migrations.AddField(model_name="approval", name="set_off_by", field=models.JSONField(default=list))
    ]
