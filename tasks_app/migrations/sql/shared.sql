-- Functions that all other rules use.
--
-- Every function that the application calls, and every trigger, sets its search_path or names the schema: otherwise
-- a temporary table with the same name as one of ours would be used in its place.

-- The server's clock. The application's role cannot set it; tests replace this function.
create function public.fd_now() returns timestamptz language sql volatile as $$
  select clock_timestamp()
$$;

-- Refuse a statement so that the application can explain it to people (tasks_app/lifecycle/refusals.py): the
-- constraint's name is the rule, the detail is JSON with what was tried.
create function public.fd_refuse(
    p_rule text, p_entity text, p_id uuid, p_from text, p_to text, p_why text,
    p_code text default 'check_violation') returns void
language plpgsql as $$
begin
  raise exception '% %: %', p_entity, coalesce(p_id::text, '(any)'), p_why
    using errcode = p_code, constraint = 'fd_' || p_rule,
          detail = jsonb_build_object('entity', p_entity, 'id', p_id, 'from', p_from, 'to', p_to, 'why', p_why);
end $$;

-- Name the current transaction by its number and its start. A restored database counts from an older number, so the
-- number alone could repeat.
create function public.fd_this_transaction() returns text language sql stable as $$
  select pg_catalog.pg_current_xact_id()::text || ' ' || extract(epoch from pg_catalog.transaction_timestamp())
$$;

-- Whether the current role is neither the owner of the tables nor a member of the owner's role.
create function public.fd_by_application() returns boolean language sql stable as $$
  select not pg_catalog.pg_has_role(
    current_user, (select relowner from pg_catalog.pg_class where oid = 'public.tasks_app_user'::regclass), 'member')
$$;

-- Refuse every change of a row and every truncation.
create function public.fd_append_only() returns trigger language plpgsql as $$
begin
  perform public.fd_refuse('append_only', tg_table_name::text, null, '', '', 'it is append-only', 'insufficient_privilege');
end $$;

do $$
declare
  kept record;
begin
  for kept in
    select * from (values
      ('audit', 'auditentry'), ('observation', 'observation'), ('import', 'import'), ('rule', 'lifecyclerule'),
      ('commanddecision', 'commanddecision'), ('killswitch', 'killswitch'), ('approvalnote', 'approvalnote'),
      ('decisionbatchitem', 'decisionbatchitem'), ('linkuse', 'linkuse')) tables (name, table_name)
  loop
    execute format('create trigger %s_rows before update or delete on public.tasks_app_%s'
                   ' for each row execute function public.fd_append_only()', kept.name, kept.table_name);
    execute format('create trigger %s_truncate before truncate on public.tasks_app_%s'
                   ' for each statement execute function public.fd_append_only()', kept.name, kept.table_name);
  end loop;
end $$;
