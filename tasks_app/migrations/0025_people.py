"""Whose each row is: members of a team may have some advertisers only. Second factors, sessions that can be listed
and ended, and the security log."""

import django.db.models.deletion
import django.utils.timezone
import encrypted_fields.fields
from django.conf import settings
from django.db import migrations, models

import tasks_app.ids

# What Django made for a relation without a model of its own; the name is derived from a hash.
_MEMBER_ONCE = """
do $$
declare v_name text;
begin
  select conname into v_name from pg_constraint
   where conrelid = 'tasks_app_user_teams'::regclass and contype = 'u';
  execute format('alter table tasks_app_user_teams rename constraint %I to member_once', v_name);
end $$;
alter table tasks_app_user_teams add column every_advertiser boolean not null default true;
alter table tasks_app_user_teams alter column every_advertiser drop default;
"""

# Written, never changed; what is old goes by the owner's function alone, which keeps 90 days whoever asks.
_APPEND_ONLY = """
create function fd_security_kept() returns trigger language plpgsql set search_path = public, pg_temp as $$
begin
  if tg_op = 'DELETE' and old.at < now() - interval '90 days'
     and current_setting('flightdeck.security_forget', true) = 'on' then
    return old;
  end if;
  perform public.fd_refuse('append_only', 'securityevent', case when tg_op <> 'TRUNCATE' then old.id end, '', '',
                           'the security log is only added to', 'insufficient_privilege');
  return null;
end $$;
create trigger fd_security_kept before update or delete on tasks_app_securityevent
  for each row execute function fd_security_kept();
create trigger fd_security_never_truncated before truncate on tasks_app_securityevent
  for each statement execute function fd_security_kept();

create function fd_security_forget(p_before timestamptz) returns int
language plpgsql security definer set search_path = public, pg_temp as $$
declare v_gone int;
begin
  perform set_config('flightdeck.security_forget', 'on', true);
  delete from tasks_app_securityevent where id in (
    select id from tasks_app_securityevent
     where at < least(p_before, now() - interval '90 days') order by at limit 2000);
  get diagnostics v_gone = row_count;
  perform set_config('flightdeck.security_forget', '', true);
  return v_gone;
end $$;
do $$ begin
  if exists (select from pg_roles where rolname = 'flightdeck_app') then
    revoke update, delete, truncate on tasks_app_securityevent from flightdeck_app;
    revoke execute on function fd_security_forget from public;
    grant execute on function fd_security_forget to flightdeck_app;
  end if;
end $$;
"""


def _advertiser() -> models.ForeignKey:
    return models.ForeignKey(
        db_index=False,
        null=True,
        on_delete=django.db.models.deletion.PROTECT,
        related_name="+",
        to="tasks_app.advertiser",
    )


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0024_saved_filters")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(_MEMBER_ONCE, migrations.RunSQL.noop)],
            state_operations=[
                migrations.CreateModel(
                    name="Membership",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                            ),
                        ),
                        (
                            "every_advertiser",
                            models.BooleanField(
                                default=True,
                                help_text="All advertisers of the team, also future ones; else those named alone.",
                            ),
                        ),
                        (
                            "team",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="memberships",
                                to="tasks_app.team",
                            ),
                        ),
                        (
                            "user",
                            models.ForeignKey(
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="memberships",
                                to=settings.AUTH_USER_MODEL,
                            ),
                        ),
                    ],
                    options={"db_table": "tasks_app_user_teams", "default_permissions": ()},
                ),
                migrations.AddConstraint(
                    model_name="membership",
                    constraint=models.UniqueConstraint(fields=("user", "team"), name="member_once"),
                ),
                migrations.AlterField(
                    model_name="user",
                    name="teams",
                    field=models.ManyToManyField(
                        blank=True, related_name="users", through="tasks_app.Membership", to="tasks_app.team"
                    ),
                ),
            ],
        ),
        migrations.AddField(
            model_name="membership",
            name="advertisers",
            field=models.ManyToManyField(blank=True, related_name="+", to="tasks_app.advertiser"),
        ),
        migrations.AddField(model_name="approval", name="advertiser", field=_advertiser()),
        migrations.AddField(model_name="command", name="advertiser", field=_advertiser()),
        migrations.AddField(model_name="job", name="advertiser", field=_advertiser()),
        migrations.AddField(model_name="notification", name="advertiser", field=_advertiser()),
        migrations.AddField(model_name="operation", name="advertiser", field=_advertiser()),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(
                condition=models.Q(("status", "open")),
                fields=["advertiser", "due_at"],
                name="approval_open_of_advertiser",
            ),
        ),
        migrations.AddIndex(
            model_name="command",
            index=models.Index(fields=["advertiser", "-id"], name="command_by_advertiser"),
        ),
        migrations.AddIndex(
            model_name="job", index=models.Index(fields=["advertiser", "-id"], name="job_by_advertiser")
        ),
        migrations.AddIndex(
            model_name="operation",
            index=models.Index(fields=["advertiser", "-id"], name="operation_by_advertiser"),
        ),
        migrations.CreateModel(
            name="LoginSession",
            fields=[
                ("session_data", models.TextField(verbose_name="session data")),
                ("expire_date", models.DateTimeField(db_index=True, verbose_name="expire date")),
                ("session_key", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("address", models.GenericIPAddressField(null=True)),
                ("agent", models.CharField(blank=True, max_length=200)),
                ("signed_in_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("seen_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="sessions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"default_permissions": ()},
        ),
        # Those sessions were named by their keys; everybody signs in once more.
        migrations.RunSQL("drop table if exists django_session", migrations.RunSQL.noop),
        migrations.CreateModel(
            name="SecondFactor",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="second_factor",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("secret", encrypted_fields.fields.EncryptedCharField(editable=False, max_length=64)),
                ("confirmed_at", models.DateTimeField(null=True)),
                ("last_step", models.BigIntegerField(default=0)),
                ("failures", models.PositiveSmallIntegerField(default=0)),
                ("locked_until", models.DateTimeField(null=True)),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="RecoveryCode",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("digest", models.CharField(max_length=64)),
                ("used_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="recovery_codes",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"default_permissions": ()},
        ),
        migrations.AddConstraint(
            model_name="recoverycode",
            constraint=models.UniqueConstraint(fields=("user", "digest"), name="recovery_code_once"),
        ),
        migrations.CreateModel(
            name="SecurityEvent",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=tasks_app.ids.new_id, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "event",
                    models.CharField(
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
                            ("exported", "Exported"),
                            ("token_made", "API token made"),
                            ("token_revoked", "API token revoked"),
                            ("sessions_ended", "Sessions ended"),
                        ],
                        max_length=24,
                    ),
                ),
                ("actor", models.CharField(blank=True, max_length=80)),
                ("actor_name", models.CharField(blank=True, max_length=160)),
                ("about", models.CharField(blank=True, max_length=200)),
                ("address", models.GenericIPAddressField(null=True)),
                ("request", models.CharField(blank=True, max_length=64)),
                ("detail", models.JSONField(default=dict)),
            ],
            options={
                "ordering": ["-id"],
                "default_permissions": ("view",),
                "verbose_name_plural": "security log",
            },
        ),
        migrations.AddIndex(
            model_name="securityevent",
            index=models.Index(fields=["actor", "-id"], name="security_by_actor"),
        ),
        migrations.AddIndex(
            model_name="securityevent",
            index=models.Index(fields=["event", "-id"], name="security_by_event"),
        ),
        migrations.AddIndex(
            model_name="securityevent", index=models.Index(fields=["at"], name="security_by_time")
        ),
        migrations.RunSQL(_APPEND_ONLY, migrations.RunSQL.noop),
    ]
