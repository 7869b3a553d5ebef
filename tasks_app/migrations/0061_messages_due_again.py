"""A message that the kill switch stopped on the bus is due again when the switch is turned off: each time with
an event of its own."""

from django.db import migrations

_DUE = """
create or replace function public.fd_message_due(p_id uuid, p_at timestamptz) returns void
language sql security definer set search_path = pg_catalog, public, pg_temp as $$
  insert into public.tasks_app_outboxevent (type, entity_type, entity_id, seq, payload, at)
  select 'message.to_send', 'message', p_id, coalesce(max(seq), 0) + 1, '{}', p_at
    from public.tasks_app_outboxevent where entity_type = 'message' and entity_id = p_id
$$;
"""


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0060_outages_kept")]
    operations = [migrations.RunSQL(_DUE, migrations.RunSQL.noop)]
