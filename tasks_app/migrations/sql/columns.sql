-- Column settings that Django's models cannot express.

-- A seller or account that is being used by a new operation is locked at once, not only at commit: the check whether it
-- may still be switched off sees the operation.
do $$
declare
  key record;
begin
  for key in
    select conname from pg_constraint
     where contype = 'f' and conrelid = 'public.tasks_app_operation'::regclass
       and confrelid in ('public.tasks_app_seller'::regclass, 'public.tasks_app_account'::regclass)
  loop
    execute format('alter table public.tasks_app_operation alter constraint %I not deferrable', key.conname);
  end loop;
end $$;

-- The turns of the kill switch are numbered by the database.
alter table public.tasks_app_killswitch alter column turn drop default;
alter table public.tasks_app_killswitch alter column turn add generated always as identity;

-- Leases of calls are inserted and deleted all the time.
alter table public.tasks_app_calllease set (
  fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000);
