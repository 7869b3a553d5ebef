"""A change of rights has its entry in the security log, an answer its approval, a subscriber's position one
direction; what is past its time is removed by functions of the owner."""

from django.db import migrations, models

from tasks_app.lifecycle.install import install_kept


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0050_named_changes")]
    operations = [
        migrations.AddField(
            model_name="securityevent",
            name="born_in",
            field=models.CharField(blank=True, default="", editable=False, max_length=48),
        ),
        install_kept(),
    ]
