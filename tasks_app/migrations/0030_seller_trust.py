"""A change of what decides whom we believe of a seller is a row of its own, approved by a second person; a
question may be the whole house's, of no team."""

import django.db.models.deletion
import django.utils.timezone
import encrypted_fields.fields
from django.db import migrations, models

import tasks_app.ids

# Who asked for what is written once; what became of it is written later.
_WRITTEN_ONCE = """
do $$ begin
  if exists (select from pg_roles where rolname = 'flightdeck_app') then
    revoke update, delete, truncate on tasks_app_trustchange from flightdeck_app;
    grant update (before, values, round, applied_at, refused_at, ended_by) on tasks_app_trustchange to flightdeck_app;
  end if;
end $$;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("tasks_app", "0029_accounts_awaited"),
    ]

    operations = [
        migrations.AlterField(
            model_name="approval",
            name="team",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, to="tasks_app.team"
            ),
        ),
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
                    ("exported", "Exported"),
                    ("token_made", "API token made"),
                    ("token_revoked", "API token revoked"),
                    ("sessions_ended", "Sessions ended"),
                ],
                max_length=24,
            ),
        ),
        migrations.CreateModel(
            name="TrustChange",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("asked_by", models.CharField(max_length=80)),
                ("asked_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("before", models.JSONField()),
                ("after", models.JSONField()),
                ("values", encrypted_fields.fields.EncryptedTextField(editable=False, null=True)),
                ("round", models.PositiveIntegerField(default=1)),
                ("applied_at", models.DateTimeField(null=True)),
                ("refused_at", models.DateTimeField(null=True)),
                ("ended_by", models.CharField(blank=True, max_length=80)),
                (
                    "account",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="trust_changes",
                        to="tasks_app.account",
                    ),
                ),
                (
                    "seller",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="trust_changes",
                        to="tasks_app.seller",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("applied_at__isnull", True), ("refused_at__isnull", True)),
                        fields=("seller", "account"),
                        name="one_trust_change_waits",
                        nulls_distinct=False,
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("applied_at__isnull", True), ("refused_at__isnull", True), _connector="OR"
                        ),
                        name="trust_change_ends_once",
                    ),
                ],
            },
        ),
        migrations.RunSQL(_WRITTEN_ONCE, migrations.RunSQL.noop),
    ]
