"""Roles' rights to people and the security log, and the advertiser of what was there before rows had one."""

from django.apps import apps as live_apps
from django.apps.registry import Apps
from django.contrib.auth.management import create_permissions
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

_OWNERS = """
create temporary table fd_owner (type text, id uuid, advertiser_id uuid, primary key (type, id)) on commit drop;
insert into fd_owner select 'campaign', id, advertiser_id from campaigns_campaign where advertiser_id is not null;
insert into fd_owner select 'deal', id, advertiser_id from orders_deal;

update tasks_app_job j set advertiser_id = o.advertiser_id
  from fd_owner o where o.type = j.subject_type and o.id = j.subject_id;
-- Nested jobs are their parents'.
do $$
declare v_found int := 1;
begin
  while v_found > 0 loop
    update tasks_app_job j set advertiser_id = p.advertiser_id
      from tasks_app_step s join tasks_app_job p on p.id = s.job_id
     where s.id = j.parent_step_id and j.advertiser_id is null and p.advertiser_id is not null;
    get diagnostics v_found = row_count;
  end loop;
end $$;

update tasks_app_operation x set advertiser_id = a.advertiser_id
  from tasks_app_account a where a.id = x.account_id;
update tasks_app_operation x set advertiser_id = o.advertiser_id
  from fd_owner o where x.advertiser_id is null and o.type = x.subject_type and o.id = x.subject_id;
-- What a step asked for is its job's.
update tasks_app_operation x set advertiser_id = j.advertiser_id
  from tasks_app_step s join tasks_app_job j on j.id = s.job_id
 where x.advertiser_id is null and x.purpose ~ '^step:[0-9a-f-]{36}:' and s.id = substr(x.purpose, 6, 36)::uuid;
insert into fd_owner select 'operation', id, advertiser_id from tasks_app_operation where advertiser_id is not null;
insert into fd_owner select 'conflict', c.id, x.advertiser_id
  from tasks_app_conflict c join tasks_app_operation x on x.id = c.operation_id where x.advertiser_id is not null;

update tasks_app_command c set advertiser_id = x.advertiser_id
  from tasks_app_operation x where x.id::text = c.result ->> 'operation';
update tasks_app_command c set advertiser_id = o.advertiser_id
  from fd_owner o where c.advertiser_id is null and o.type = c.subject_type and o.id = c.subject_id;
insert into fd_owner select 'command', id, advertiser_id from tasks_app_command where advertiser_id is not null;
insert into fd_owner select 'job', id, advertiser_id from tasks_app_job where advertiser_id is not null;

update tasks_app_approval a set advertiser_id = o.advertiser_id
  from fd_owner o where o.type = a.subject_type and o.id = a.subject_id;
insert into fd_owner select 'approval', id, advertiser_id from tasks_app_approval where advertiser_id is not null;
update tasks_app_notification n set advertiser_id = o.advertiser_id
  from fd_owner o where n.team_id is not null and o.type = n.subject_type and o.id = n.subject_id;
"""


def sync(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    # Django makes permissions only after all migrations; the groups need them now.
    for config in live_apps.get_app_configs():
        create_permissions(config, verbosity=0)
    from tasks_app.people.roles import roles_sync

    roles_sync()


class Migration(migrations.Migration):
    dependencies = [
        ("campaigns", "0015_search"),
        ("orders", "0009_mirror"),
        ("tasks_app", "0025_people"),
    ]
    operations = [
        migrations.RunSQL(_OWNERS, migrations.RunSQL.noop),
        migrations.RunPython(sync, migrations.RunPython.noop),
    ]
