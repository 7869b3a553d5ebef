-- What every entity's enforcement uses.

-- The transaction an import was recorded in; nobody states it for himself.
create or replace function fd_import_txid() returns trigger language plpgsql as $$
begin
  new.txid := pg_current_xact_id()::text::bigint;
  return new;
end $$;
create or replace trigger import_txid before insert on tasks_app_import
  for each row execute function fd_import_txid();
create or replace trigger import_rows before update or delete on tasks_app_import
  for each row execute function fd_append_only();
create or replace trigger import_truncate before truncate on tasks_app_import
  for each statement execute function fd_append_only();

create or replace trigger rule_rows before update or delete on tasks_app_lifecyclerule
  for each row execute function fd_append_only();
create or replace trigger rule_truncate before truncate on tasks_app_lifecyclerule
  for each statement execute function fd_append_only();

do $$ begin
  if exists (select from pg_roles where rolname = 'flightdeck_app') then
    revoke insert, update, delete, truncate on tasks_app_lifecycleedge from flightdeck_app;
    revoke update, delete, truncate on tasks_app_import, tasks_app_lifecyclerule from flightdeck_app;
  end if;
end $$;
