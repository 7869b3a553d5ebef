"""What decides whom we believe changes with its entry in the security log; what a delivery said stays as it came;
a reconciliation is asked for, and its findings are resolved, at the server's time."""

from django.db import migrations, models

from tasks_app.lifecycle.install import install_kept


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0062_other_bodies_counted")]
    operations = [
        migrations.AlterField(
            model_name="securityevent",
            name="event",
            field=models.CharField(
                choices=[
                    ("login", "Signed in"),
                    ("login_failed", "Sign-in refused"),
                    ("locked_out", "Locked out"),
                    ("logout", "Signed out"),
                    ("factor_added", "Second factor set up"),
                    ("factor_removed", "Second factor removed"),
                    ("factor_failed", "Second factor refused"),
                    ("recovery_used", "Recovery code used"),
                    ("password_changed", "Password changed"),
                    ("rights_changed", "Rights changed"),
                    ("team_changed", "Team changed"),
                    ("advertiser_changed", "Advertiser changed"),
                    ("seller_changed", "Seller changed"),
                    ("seller_asked", "Change of a seller asked for"),
                    ("seller_refused", "Change of a seller not made"),
                    ("account_told", "Account changed by its seller"),
                    ("exported", "Exported"),
                    ("token_made", "API token made"),
                    ("token_revoked", "API token revoked"),
                    ("sessions_ended", "Sessions ended"),
                ],
                max_length=24,
            ),
        ),
        install_kept(),
    ]
