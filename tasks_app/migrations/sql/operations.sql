-- Operations with sellers: frozen requests, released answers, commands at gates, conflicts.

-- What we send is what was stored when the operation was created. Only the owner re-encrypts it.
create function public.fd_operation_frozen() returns trigger language plpgsql as $$
begin
  if (new.request, new.purpose, new.idempotency_key, new.task_type, new.seller_id)
       is distinct from (old.request, old.purpose, old.idempotency_key, old.task_type, old.seller_id)
     or (new.request_text is distinct from old.request_text
         and not pg_catalog.pg_has_role(
           session_user, (select relowner from pg_catalog.pg_class where oid = tg_relid), 'member')) then
    perform public.fd_refuse('frozen', 'operation', old.id, old.status, new.status,
                             'its request is frozen', 'insufficient_privilege');
  end if;
  return new;
end $$;
create trigger fd_operation_frozen
  before update of request, request_text, purpose, idempotency_key, task_type, seller_id on public.tasks_app_operation
  for each row execute function public.fd_operation_frozen();

-- The result of a settled operation changes only through fd_move_operation and fd_note_operation, which write an
-- entry.
create function public.fd_operation_result() returns trigger language plpgsql as $$
begin
  if pg_catalog.pg_has_role(current_user, (select relowner from pg_catalog.pg_class where oid = tg_relid), 'member')
  then
    return new;
  end if;
  perform public.fd_refuse('result', 'operation', old.id, old.status, new.status,
                           'what it came to is kept', 'insufficient_privilege');
  return null;
end $$;
create trigger fd_operation_result before update of result, error, settled_at on public.tasks_app_operation
  for each row when (
    old.status = new.status
    and (old.settled_at is not null or old.status in ('completed', 'failed', 'rejected', 'canceled'))
    and (new.result, new.error, new.settled_at) is distinct from (old.result, old.error, old.settled_at))
  execute function public.fd_operation_result();

-- An answer to a seller is sent as a person wrote it. Before its release, and while no approval is open, it can be
-- withdrawn as a whole; it is never edited. Only the owner re-encrypts it.
create function public.fd_answer_frozen() returns trigger language plpgsql as $$
begin
  if new.request_text is distinct from old.request_text and pg_catalog.pg_has_role(
       session_user, (select relowner from pg_catalog.pg_class where oid = tg_relid), 'member') then
    return new;
  end if;
  if old.released_at is null and new.released_at is null
     and new.request_text is null and new.answer is null and new.answered_at is null
     and not exists (select from public.tasks_app_approval a
                      where a.kind = 'answer' and a.subject_type = 'operation' and a.status = 'open'
                        and a.subject_id = old.operation_id and a.subject_version = old.generation) then
    return new;
  end if;
  perform public.fd_refuse('answer', 'continuation', old.id, '', '', 'its answer is frozen',
                           'insufficient_privilege');
  return null;
end $$;
create trigger fd_answer_frozen
  before update of request_text, answer, answered_by, answered_at, released_at on public.tasks_app_continuation
  for each row when (
    (old.answered_at is not null
     and (old.request_text, old.answer, old.answered_by, old.answered_at)
         is distinct from (new.request_text, new.answer, new.answered_by, new.answered_at))
    or (old.released_at is not null and new.released_at is distinct from old.released_at))
  execute function public.fd_answer_frozen();

-- An answer that may move money needs an approval of this pause. New credentials without text, and answers to
-- reads, need none.
create function public.fd_answer_released() returns trigger language plpgsql as $$
begin
  if public.fd_by_application()
     and (tg_op = 'INSERT' or old.released_at is null)
     and not coalesce(new.kind = 'auth' and new.answer ->> 'text' = '' and new.answer -> 'changes' = '{}', false)
     and exists (select from public.tasks_app_operation o
                  where o.id = new.operation_id and o.idempotency_key is not null)
     and not exists (select from public.tasks_app_approval a
                      where a.kind = 'answer' and a.subject_type = 'operation' and a.status = 'approved'
                        and a.subject_id = new.operation_id and a.subject_version = new.generation) then
    perform public.fd_refuse('release', 'continuation', new.id, '', '', 'nobody approved this answer',
                             'insufficient_privilege');
  end if;
  return new;
end $$;
create trigger fd_answer_released before insert or update of released_at on public.tasks_app_continuation
  for each row when (new.released_at is not null) execute function public.fd_answer_released();

-- Each time a command waits at its gates is a round with its own number; what people approved in one round is not
-- carried into the next.
create function public.fd_gate_round() returns trigger language plpgsql as $$
begin
  perform public.fd_refuse('gate', 'command', new.id, '', '', 'each waiting at its gates is a round of its own',
                           'insufficient_privilege');
  return null;
end $$;
create trigger fd_gate_round before update of waiting_since, gate_round on public.tasks_app_command
  for each row when (
    new.gate_round not in (old.gate_round, old.gate_round + 1)
    or (old.waiting_since is null and new.waiting_since is not null and new.gate_round = old.gate_round)
    or (new.gate_round <> old.gate_round and new.overrides <> '[]'))
  execute function public.fd_gate_round();

-- A command passes a gate only if an approval of the round that ends says so.
create function public.fd_gate_passed() returns trigger language plpgsql as $$
begin
  if exists (
    select from jsonb_array_elements_text(new.overrides) g (name)
     where not (tg_op = 'UPDATE' and old.overrides ? g.name) and not (
       (tg_op = 'INSERT' or (old.waiting_since is not null and new.waiting_since is null
                             and new.gate_round = old.gate_round))
       and exists (
         select from public.tasks_app_approval a
          where a.subject_type = 'command' and a.subject_id = new.id and a.subject_version = new.gate_round
            and a.status = 'approved'
            and coalesce(a.evidence -> 'passes', a.evidence -> 'gates') ? g.name))) then
    perform public.fd_refuse('gate', 'command', new.id, '', '', 'nobody approved that it passes its gates',
                             'insufficient_privilege');
  end if;
  return new;
end $$;
create trigger fd_gate_passed before insert or update of overrides on public.tasks_app_command
  for each row when (new.overrides <> '[]') execute function public.fd_gate_passed();

-- A conflict opens unresolved, or resolved by the system with the reason why nobody decides on it. Its resolution
-- must match the decision of its approval, and is never changed.
create function public.fd_conflict_resolved() returns trigger language plpgsql as $$
declare
  v_why text := '';
begin
  if not public.fd_by_application() then
    return new;
  end if;
  if tg_op = 'UPDATE' and old.resolved_at is not null then
    if (new.resolution, new.resolved_by, new.resolved_at, new.reason)
         is distinct from (old.resolution, old.resolved_by, old.resolved_at, old.reason) then
      v_why := 'how it was resolved is kept';
    end if;
  elsif new.resolved_at is null then
    if (new.resolution, new.resolved_by) is distinct from ('', '')
       or new.reason <> (case when tg_op = 'INSERT' then '' else old.reason end) then
      v_why := 'what is open has no resolution';
    end if;
  elsif tg_op = 'INSERT' then
    if (new.resolution, new.resolved_by) is distinct from ('kept', 'system') or new.reason = '' then
      v_why := 'nobody decided on it';
    end if;
  else
    if not exists (
      select from (
        select a.id, a.status from public.tasks_app_approval a
         where a.kind = 'conflict' and a.subject_type = 'conflict' and a.subject_id = new.id
         order by a.id desc limit 1) asked
        join public.tasks_app_auditentry e
          on e.entity_type = 'approval' and e.entity_id = asked.id and e.to_status = asked.status
             and e.actor = new.resolved_by
       where (asked.status, new.resolution) in (('approved', 'kept'), ('rejected', 'taken'))) then
      v_why := 'nobody decided on it so';
    end if;
  end if;
  if v_why <> '' then
    perform public.fd_refuse('resolved', 'conflict', new.id, '', '', v_why, 'insufficient_privilege');
  end if;
  return new;
end $$;
create trigger fd_conflict_resolved before insert or update on public.tasks_app_conflict
  for each row execute function public.fd_conflict_resolved();
create trigger fd_resolved_at before insert or update of resolved_at on public.tasks_app_conflict
  for each row when (new.resolved_at is not null) execute function public.fd_resolved_at();

