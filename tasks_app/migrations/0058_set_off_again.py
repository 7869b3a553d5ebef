"""Who sets off again what people are asked about is added, by a note, to those who do not decide; nobody is
taken from them."""

from django.db import migrations

from tasks_app.lifecycle.install import install_changes

_GAINS = """
create or replace function public.fd_set_off_gains() returns trigger language plpgsql as $$
begin
  if jsonb_typeof(new.set_off_by) is distinct from 'array' or not new.set_off_by @> old.set_off_by then
    perform public.fd_refuse('set_off', 'approval', old.id, '', '',
                             'who set it off does not decide: names are added, and none is taken away');
  end if;
  return new;
end $$;
create or replace trigger fd_set_off_gains before update of set_off_by on public.tasks_app_approval
  for each row execute function public.fd_set_off_gains();
"""


class Migration(migrations.Migration):
    dependencies = [("tasks_app", "0057_notification_nor_for")]
    operations = [
        install_changes("approval", moved=[], noted=["set_off_by"]),
        migrations.RunSQL(_GAINS, "drop trigger if exists fd_set_off_gains on public.tasks_app_approval"),
    ]
