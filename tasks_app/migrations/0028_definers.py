"""Functions that run as their owner look names up in pg_catalog, public and last among temporary tables, and name
the schema of whatever they touch."""

from django.db import migrations

from tasks_app.lifecycle.install import (
    install_audit,
    install_enforcement,
    install_enforcement_shared,
    install_move,
    install_steps,
)

_EVENT = """
create or replace function public.{name}(p_id uuid, p_at timestamptz) returns void
language sql security definer set search_path = pg_catalog, public, pg_temp as $$
  insert into public.tasks_app_outboxevent (type, entity_type, entity_id, seq, payload, at)
  values ('{type}', '{entity}', p_id, 1, '{{}}', p_at)
$$;
"""
_FORGET = """
create or replace function public.fd_security_forget(p_before timestamptz) returns int
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare v_gone int;
begin
  perform set_config('flightdeck.security_forget', 'on', true);
  delete from public.tasks_app_securityevent where id in (
    select id from public.tasks_app_securityevent
     where at < least(p_before, now() - interval '90 days') order by at limit 2000);
  get diagnostics v_gone = row_count;
  perform set_config('flightdeck.security_forget', '', true);
  return v_gone;
end $$;
"""
_TOLD = (
    _EVENT.format(name="fd_tell", type="notification.told", entity="notification"),
    _EVENT.format(name="fd_message_due", type="message.to_send", entity="message"),
)


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0027_people_named")]
    operations = [
        install_audit(),
        install_enforcement_shared(),
        install_move("operation", "tasks_app_operation"),
        install_move("approval", "tasks_app_approval"),
        install_move("job", "tasks_app_job"),
        install_move("step", "tasks_app_step"),
        install_enforcement("operation", "tasks_app_operation", "requested"),
        install_enforcement("approval", "tasks_app_approval", "open"),
        install_enforcement("job", "tasks_app_job", "PENDING"),
        install_enforcement("step", "tasks_app_step", "received"),
        install_steps(),
        *(migrations.RunSQL(made, migrations.RunSQL.noop) for made in (*_TOLD, _FORGET)),
    ]
