"""A move from a status to itself is none; a mutation's answer is approved whoever's it is; a question is put to
further roles, or given more time, when it is time; a schedule is run once for each request."""

from django.db import migrations, models

from tasks_app.lifecycle.install import install_enforcement, install_kept

_ESCALATE = """
-- Puts an open question to the further roles that it names, or gives it more time where its policies let it wait
-- on and its time is over, with the entry that tells so. Answers when, null when somebody else moved it first.
create or replace function public.fd_approval_escalate(
    p_id uuid, p_version int, p_due_at timestamptz, p_reason text, p_trace text, p_at timestamptz)
    returns timestamptz
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  r public.tasks_app_approval;
  v_at timestamptz;
  v_roles jsonb;
begin
  select * into r from public.tasks_app_approval t
    where t.id = p_id and t.version = p_version and t.status = 'open' for no key update;
  if not found then return null; end if;
  -- A host's clock may be ahead of this one.
  if least(r.escalate_at, r.due_at) > public.fd_now() + interval '5 minutes'
     or (p_due_at > r.due_at and r.due_at > public.fd_now() + interval '5 minutes') then
    perform public.fd_refuse('asked', 'approval', p_id, r.status, r.status, 'it is not time yet');
  end if;
  if p_due_at < r.due_at or (p_due_at > r.due_at and (r.on_expiry <> 'wait' or p_due_at > r.hold_until)) then
    perform public.fd_refuse('asked', 'approval', p_id, r.status, r.status, 'its policies give it no other time');
  end if;
  select coalesce(jsonb_agg(name order by name), '[]') into v_roles from (
    select jsonb_array_elements_text(r.roles) union select jsonb_array_elements_text(r.escalate_to)
     where r.roles <> '[]') roles (name);
  v_at := coalesce(p_at, clock_timestamp());
  update public.tasks_app_approval t
     set version = p_version + 1, roles = v_roles, due_at = p_due_at, escalated_at = coalesce(r.escalated_at, v_at)
   where t.id = p_id;
  perform public.fd_audit_append(
    'approval', p_id, p_version + 1, r.status, r.status, v_at, 'system', p_reason, '{}',
    jsonb_build_object('roles', jsonb_build_array(r.roles, v_roles),
                       'due_at', jsonb_build_array(to_jsonb(r.due_at), to_jsonb(p_due_at))), p_trace);
  return v_at;
end $$;
"""


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0072_account_people_said")]
    operations = [
        install_enforcement("approval", "tasks_app_approval", "open"),
        install_enforcement("job", "tasks_app_job", "PENDING"),
        install_enforcement("operation", "tasks_app_operation", "requested"),
        install_enforcement("step", "tasks_app_step", "received"),
        install_kept(),
        migrations.RunSQL(_ESCALATE, migrations.RunSQL.noop),
        migrations.AddField(
            model_name="teamwebhook",
            name="again_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="scheduleentry",
            name="request_key",
            field=models.CharField(blank=True, db_default="", default="", editable=False, max_length=64),
        ),
        migrations.AddConstraint(
            model_name="scheduleentry",
            constraint=models.UniqueConstraint(
                condition=models.Q(("request_key", ""), _negated=True),
                fields=("schedule", "request_key"),
                name="schedule_run_once_per_request",
            ),
        ),
    ]
