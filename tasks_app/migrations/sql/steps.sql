-- The job engine in the database: complete steps, release their successors and claim the next ones, in one call and one
-- commit. It makes the same moves as transition(), along the same edges, with the same entries and events. Where the
-- application has to decide what follows a step, the functions write nothing for that step and say so.
--
-- Lock order: jobs by id, then steps (an item before its fan-out step, then by id); other jobs and steps only if nobody
-- holds them. Times are taken after the locks, so that no effect is older than its cause.

-- What a call is going to write: entries of the trail and workflow events.
create type public.fd_entry as (
  entity text, id uuid, seq int, from_status text, to_status text, at timestamptz, reason text, changes jsonb,
  trace text, body bytea, prev bytea, hash bytea);
create type public.fd_told as (job_id uuid, type text, payload jsonb, correlation jsonb, key text, at timestamptz);

-- Whether an administrator attached a guard to an edge that these functions take: they take guardless ones only.
create function public.fd_steps_guarded() returns boolean language plpgsql stable parallel safe as $$
begin
  perform 1 from public.tasks_app_lifecyclerule limit 1;
  if not found then return false; end if;
  perform 1 from public.tasks_app_lifecyclerule r
    where (r.entity, r.from_status, r.to_status) in (
            ('step', 'received', 'queued'), ('step', 'queued', 'executing'),
            ('step', 'awaiting_tool', 'executing'), ('step', 'awaiting_user_confirmation', 'executing'),
            ('step', 'executing', 'completed'), ('job', 'QUEUED', 'DISPATCHING'),
            ('job', 'DISPATCHING', 'PROCESSING'), ('job', 'DISPATCHING', 'COMPLETED'),
            ('job', 'PROCESSING', 'COMPLETED'), ('job', 'PREVIEW', 'COMPLETED'));
  return found;
end $$;

-- What a decision goes back to (tracing.py); p_back: a job's request, team and user. Where no request began the
-- job, the present task did.
create function public.fd_goes_back(p_back jsonb, p_trace text) returns jsonb language sql stable as $$
  select p_back || jsonb_build_object('trace_id', p_trace,
                                      'request', coalesce(nullif(p_back ->> 'request', ''), p_trace));
$$;

-- An entry of the trail as fd_audit_append writes it; p_prev: the hash of the one before, where that is not
-- written yet. A call writes its entries together, at its end: a statement for all costs little more than for one.
create function public.fd_step_entry(
    p_entity text, p_id uuid, p_seq int, p_from text, p_to text, p_at timestamptz, p_reason text, p_changes jsonb,
    p_trace text, p_prev bytea) returns public.fd_entry
language plpgsql as $$
declare
  v_prev bytea := p_prev;
  v_body bytea;
begin
  if v_prev is null then
    select hash into v_prev from public.tasks_app_auditentry
     where entity_type = p_entity and entity_id = p_id and seq = p_seq - 1;
    if not found then
      perform public.fd_refuse('chain', p_entity, p_id, p_from, p_to,
                             format('its audit chain has no entry %s', p_seq - 1));
    end if;
  end if;
  v_body := public.fd_body(p_entity, p_id, p_seq, p_from, p_to, p_at, 'system', p_reason, '{}', p_changes,
                           p_trace, v_prev);
  return (p_entity, p_id, p_seq, p_from, p_to, p_at, p_reason, p_changes, p_trace, v_body, v_prev,
          sha256(v_body))::public.fd_entry;
end $$;

-- A WorkflowEvent of a step, as jobs/events.py records it; p_back: fd_goes_back's answer.
create function public.fd_step_event(
    p_step public.tasks_app_step, p_back jsonb, p_kind text, p_payload jsonb, p_at timestamptz)
    returns public.fd_told
language plpgsql as $$
begin
  return (p_step.job_id, p_kind, p_payload,
          p_back || jsonb_build_object('step_id', p_step.id, 'step', p_step.key, 'attempt', p_step.attempts::text),
          'step:' || p_step.id || ':' || p_step.version || ':' || p_step.attempts || ':' || p_kind, p_at)::public.fd_told;
end $$;

-- Entries with their outbox events, and workflow events, in their order.
create function public.fd_step_write(
    p_entries public.fd_entry[], p_events public.fd_told[]) returns void
language plpgsql as $$
begin
  insert into public.tasks_app_auditentry (entity_type, entity_id, seq, from_status, to_status, at, actor, reason, metadata,
      changes, trace_id, format_version, body, prev_hash, hash)
  select entity, id, seq, from_status, to_status, at, 'system', reason, '{}', changes, trace, 1, body, prev, hash
    from unnest(p_entries);
  insert into public.tasks_app_outboxevent (type, entity_type, entity_id, seq, payload, at)
  select entity || '.' || to_status, entity, id, seq, public.fd_payload(from_status, to_status, 'system', '{}'), at
    from unnest(p_entries);
  insert into public.tasks_app_workflowevent (job_id, type, source, payload, correlation, idempotency_key, at)
  select job_id, type, 'engine', payload, correlation, key, at from unnest(p_events);
end $$;

-- A job's move along one edge; p_why: the descriptions of edges, by "from>to". Answers its entry.
create function public.fd_job_step(
    p_job uuid, p_from text, p_to text, p_version int, p_why jsonb, p_changes jsonb, p_trace text,
    p_at timestamptz, p_prev bytea) returns public.fd_entry
language plpgsql as $$
begin
  update public.tasks_app_job set status = p_to, version = p_version + 1, status_since = p_at where id = p_job;
  return public.fd_step_entry('job', p_job, p_version + 1, p_from, p_to, p_at, p_why ->> (p_from || '>' || p_to), p_changes,
                       p_trace, p_prev);
end $$;

-- Take the next ready steps of the lanes, at most p_many: by priority, then first come, then id; after the first
-- one only as far as its action and theirs are in p_short. Answers
--   claimed: `taken`; `none` is ready; `orphan`: first take over from a worker that is gone, where nothing of a
--     lower priority number is ready;
--   taken: of each step
--     step, job: the rows, without what may be large in the job;
--     running: whether the job is known to run; where somebody else holds its row, that is left to the caller.
-- p_entries, p_events: what the call has to write beside its own.
create function public.fd_steps_take(
    p_lanes text[], p_many int, p_short text[], p_lease_s double precision, p_why jsonb, p_trace text,
    p_at timestamptz, p_entries public.fd_entry[], p_events public.fd_told[]) returns json
language plpgsql as $$
declare
  v_entries public.fd_entry[] := p_entries;
  v_events public.fd_told[] := p_events;
  v_entry public.fd_entry;
  v_prev bytea;
  v_running boolean;
  v_taken json[] := '{}';
  v_at timestamptz := coalesce(p_at, clock_timestamp());
  s record;
  n public.tasks_app_step;
  j record;
begin
  perform 1 from public.tasks_app_step t
    where t.lease_until < v_at and t.status = 'executing' and t.lane = any (p_lanes)
      and not exists (select from public.tasks_app_step q
                       where q.lane = any (p_lanes) and q.ready_at <= v_at and q.priority < t.priority)
    limit 1;
  if found then
    perform public.fd_step_write(v_entries, v_events);
    return '{"claimed": "orphan"}';
  end if;
  -- The lanes' heads in one order; a row is locked only when its turn comes.
  for s in
    select t.id, t.status, t.version, t.attempts, t.lease_until, t.ready_at, t.waiting_for, t.started_at,
           coalesce(t.spec ->> 'action' = any (p_short) and t.spec ->> 'for_each' = '', false) as short
      from ((select q.id, q.priority, q.ready_at from public.tasks_app_step q
              where 'recipes' = any (p_lanes) and q.lane = 'recipes' and q.ready_at <= v_at
              order by q.priority, q.ready_at, q.id)
            union all
            (select q.id, q.priority, q.ready_at from public.tasks_app_step q
              where 'background' = any (p_lanes) and q.lane = 'background' and q.ready_at <= v_at
              order by q.priority, q.ready_at, q.id)
            order by 2, 3, 1) head
     cross join lateral (select q.* from public.tasks_app_step q where q.id = head.id and q.ready_at <= v_at
                            for no key update skip locked) t
     limit p_many
  loop
    exit when cardinality(v_taken) > 0 and not s.short;
    v_at := coalesce(p_at, clock_timestamp());
    update public.tasks_app_step t
       set status = 'executing', version = s.version + 1, status_since = v_at, attempts = s.attempts + 1,
           lease_until = v_at + make_interval(secs => p_lease_s), ready_at = null, waiting_for = null,
           started_at = coalesce(s.started_at, v_at)
     where t.id = s.id returning t.* into n;
    v_prev := null;
    if cardinality(p_entries) > 0 then
      select e.hash into v_prev from unnest(p_entries) e where e.id = n.id and e.seq = s.version;
    end if;
    v_entries := v_entries || public.fd_step_entry('step', n.id, n.version, s.status, 'executing', v_at,
        case s.status when 'queued' then 'A worker took it' else 'What it waited for has come' end,
        jsonb_build_object(
            'attempts', jsonb_build_array(s.attempts, n.attempts),
            'lease_until', jsonb_build_array(s.lease_until, n.lease_until),
            'ready_at', jsonb_build_array(s.ready_at, null),
            'waiting_for', jsonb_build_array(case when s.waiting_for is not null then public.fd_compact(s.waiting_for) end,
                                             null),
            'started_at', jsonb_build_array(s.started_at, n.started_at)), p_trace, v_prev);
    select id, status, version, status_since, created_at, reference, recipe, recipe_version, recipe_digest, team_id,
           advertiser_id, requested_by, request_id, subject_type, subject_id, priority, parent_step_id, retry_of_id,
           expires_at, ended_at
      into j from public.tasks_app_job where id = n.job_id;
    v_events := v_events || public.fd_step_event(n,
        public.fd_goes_back(jsonb_build_object('request', j.request_id, 'team', j.team_id, 'user', j.requested_by), p_trace),
        case s.status when 'queued' then 'step.started' else 'step.resumed' end, '{}', v_at);
    v_running := true;
    if j.status in ('QUEUED', 'DISPATCHING') then
      -- The job comes before its steps in the order of locks: taken only where nobody has to be waited for.
      select status, version into j.status, j.version from public.tasks_app_job where id = n.job_id
         for no key update skip locked;
      v_running := found;
      v_prev := null;
      if v_running and j.status = 'QUEUED' then
        v_entry := public.fd_job_step(j.id, 'QUEUED', 'DISPATCHING', j.version, p_why, '{}', p_trace, v_at, null);
        v_entries := v_entries || v_entry;
        v_prev := v_entry.hash;
        j.version := j.version + 1;
        j.status := 'DISPATCHING';
      end if;
      if v_running and j.status = 'DISPATCHING' then
        v_entries := v_entries || public.fd_job_step(j.id, 'DISPATCHING', 'PROCESSING', j.version, p_why, '{}', p_trace,
                                              v_at, v_prev);
        j.version := j.version + 1;
        j.status := 'PROCESSING';
        j.status_since := v_at;
      end if;
    end if;
    v_taken := v_taken || case when v_running then json_build_object('running', true, 'step', n, 'job', j)
                               else json_build_object('running', false, 'step', n) end;
    exit when not s.short;  -- nothing lies behind one that may be long
  end loop;
  perform public.fd_step_write(v_entries, v_events);
  if cardinality(v_taken) = 0 then return '{"claimed": "none"}'; end if;
  return json_build_object('claimed', 'taken', 'taken', v_taken);
end $$;

-- The same as a call of its own; `guarded` where a guard stands on an edge.
create function public.fd_steps_claim(
    p_lanes text[], p_many int, p_short text[], p_lease_s double precision, p_why jsonb, p_trace text,
    p_at timestamptz) returns json
language plpgsql security definer set search_path = pg_catalog, public, pg_temp
  set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
begin
  if public.fd_steps_guarded() then return '{"claimed": "guarded"}'; end if;
  return public.fd_steps_take(p_lanes, p_many, p_short, p_lease_s, p_why, p_trace, p_at, '{}', '{}');
end $$;

-- A step that executes, locked, becomes completed; p_prev: as fd_step_entry takes it. Answers its entry.
create function public.fd_step_complete(
    p_step public.tasks_app_step, p_outputs jsonb, p_trace text, p_at timestamptz, p_prev bytea) returns public.fd_entry
language plpgsql as $$
begin
  update public.tasks_app_step t
     set status = 'completed', version = p_step.version + 1, status_since = p_at, outputs = p_outputs,
         ended_at = p_at, lease_until = null, waiting_for = null, ready_at = null, skipped = false
   where t.id = p_step.id;
  return public.fd_step_entry('step', p_step.id, p_step.version + 1, 'executing', 'completed', p_at, 'Done',
      jsonb_build_object(
          'outputs', jsonb_build_array(null, public.fd_compact(p_outputs)),
          'ended_at', jsonb_build_array(p_step.ended_at, p_at),
          'lease_until', jsonb_build_array(p_step.lease_until, null),
          'waiting_for', jsonb_build_array(
              case when p_step.waiting_for is not null then public.fd_compact(p_step.waiting_for) end, null),
          'ready_at', jsonb_build_array(p_step.ready_at, null),
          'skipped', jsonb_build_array(p_step.skipped, false)), p_trace, p_prev);
end $$;

-- Its events; p_step: the row as it was before.
create function public.fd_step_completed(
    p_step public.tasks_app_step, p_outputs jsonb, p_back jsonb, p_at timestamptz) returns public.fd_told[]
language plpgsql as $$
declare
  v_told public.fd_told[];
begin
  p_step.version := p_step.version + 1;
  v_told := array[public.fd_step_event(p_step, p_back, 'step.completed',
                                jsonb_build_object('outputs', p_outputs, 'skipped', false), p_at)];
  if p_step.failures > 0 then
    v_told := v_told || public.fd_step_event(p_step, p_back, 'retry_succeeded',
                                      jsonb_build_object('failures', p_step.failures), p_at);
  end if;
  return v_told;
end $$;

-- Complete attempt p_attempt of a step and release what follows. What it has to write, and the lanes of the steps
-- that became ready. `done` false, and nothing was moved: the attempt is not the step's any more, or what follows is
-- the application's to decide: a condition, a preview, an item that failed, the end of a job that is nested, has
-- outputs to resolve or is of a recipe in p_told (null: any), whose end somebody is told of.
create function public.fd_step_end(
    p_job uuid, p_step uuid, p_attempt int, p_outputs jsonb, p_told text[], p_why jsonb, p_trace text,
    p_at timestamptz, out done boolean, out entries public.fd_entry[], out events public.fd_told[], out released text[])
language plpgsql as $$
declare
  j record;
  s public.tasks_app_step;
  whole public.tasks_app_step;
  u public.tasks_app_step;
  v_at timestamptz;
  v_end uuid := p_step;
  v_after uuid[];
  v_ready uuid[];
  v_id uuid;
  v_conditions boolean;
  v_active int;
  v_outputs jsonb;
  v_entry public.fd_entry;
begin
  done := false;
  select id, status, version, recipe, parent_step_id, active_steps, expires_at,
         public.fd_goes_back(jsonb_build_object('request', request_id, 'team', team_id, 'user', requested_by), p_trace) as back
    into j from public.tasks_app_job where id = p_job for no key update;
  if not found then return; end if;
  select * into s from public.tasks_app_step t
   where t.id = p_step and t.job_id = p_job and t.status = 'executing' and t.attempts = p_attempt
     for no key update;
  if not found or (j.status = 'PROCESSING' and s.spec @> '{"preview": true}') then return; end if;

  if s.fan_out_id is not null then
    select * into whole from public.tasks_app_step t where t.id = s.fan_out_id for no key update;
    if whole.status = 'awaiting_tool' and whole.incoming = 1 then
      v_end := whole.id;
      perform 1 from public.tasks_app_step t where t.fan_out_id = whole.id and t.id <> s.id
         and (t.status <> 'completed' or t.skipped);
      if found then return; end if;
    else
      v_end := null;
    end if;
  end if;
  if v_end is not null then
    select array_agg(l.id), array_agg(l.id order by l.id) filter (where l.incoming = 1),
           bool_or(l.incoming = 1 and coalesce(l.spec ->> 'condition', '') <> '')
      into v_after, v_ready, v_conditions
      from (select t.id, t.incoming, t.spec from public.tasks_app_edge g join public.tasks_app_step t on t.id = g.after_id
             where g.before_id = v_end and t.status = 'received' order by t.id for no key update of t) l;
    if v_conditions then return; end if;
    v_active := j.active_steps - 1 + coalesce(cardinality(v_ready), 0);
    if v_active = 0 then
      if j.status not in ('DISPATCHING', 'PROCESSING', 'PREVIEW') or j.parent_step_id is not null
          or p_told is null or j.recipe = any (p_told) then
        return;
      end if;
      perform 1 from public.tasks_app_job where id = p_job and plan -> 'outputs' <> '{}';
      if found then return; end if;
      perform 1 from public.tasks_app_step t where t.job_id = p_job and t.status = 'failed' and t.fan_out_id is null
         and t.spec -> 'optional' = 'false';
      if found then return; end if;
    end if;
  end if;

  -- From here on it is done.
  done := true;
  released := '{}';
  v_at := coalesce(p_at, clock_timestamp());
  entries := array[public.fd_step_complete(s, p_outputs, p_trace, v_at, null)];
  events := public.fd_step_completed(s, p_outputs, j.back, v_at);
  if s.fan_out_id is not null then
    update public.tasks_app_step t set incoming = t.incoming - 1 where t.id = s.fan_out_id and t.incoming > 0;
    if v_end is not null then
      update public.tasks_app_step t set status = 'executing', version = whole.version + 1, status_since = v_at
       where t.id = whole.id returning t.* into whole;
      v_entry := public.fd_step_entry('step', whole.id, whole.version, 'awaiting_tool', 'executing', v_at,
                               'All items have ended', '{}', p_trace, null);
      entries := entries || v_entry;
      select jsonb_build_object('results', jsonb_agg(t.outputs order by t.item_index)) into v_outputs
        from public.tasks_app_step t where t.fan_out_id = whole.id;
      entries := entries || public.fd_step_complete(whole, v_outputs, p_trace, v_at, v_entry.hash);
      events := events || public.fd_step_completed(whole, v_outputs, j.back, v_at);
    end if;
  end if;
  if cardinality(v_after) > coalesce(cardinality(v_ready), 0) then
    update public.tasks_app_step t set incoming = t.incoming - 1 where t.id = any (v_after) and t.incoming > 1;
  end if;
  foreach v_id in array coalesce(v_ready, '{}') loop
    update public.tasks_app_step t
       set incoming = 0, status = 'queued', version = t.version + 1, status_since = v_at, ready_at = v_at
     where t.id = v_id returning t.* into u;
    entries := entries || public.fd_step_entry('step', u.id, u.version, 'received', 'queued', v_at, 'Ready',
        jsonb_build_object('ready_at', jsonb_build_array(null, v_at)), p_trace, null);
    events := events || public.fd_step_event(u, j.back, 'step.queued', '{}', v_at);
    released := released || u.lane::text;
  end loop;
  if v_active = 0 then
    update public.tasks_app_job set outputs = '{}', ended_at = v_at, expires_at = null, active_steps = 0 where id = p_job;
    entries := entries || public.fd_job_step(p_job, j.status, 'COMPLETED', j.version, p_why, jsonb_build_object(
        'outputs', jsonb_build_array(null, '{}'::jsonb), 'ended_at', jsonb_build_array(null, v_at),
        'expires_at', jsonb_build_array(j.expires_at, null)), p_trace, v_at, null);
    events := events || (p_job, 'job.completed', '{"outputs": {}}', j.back,
                             'job:' || p_job || ':' || j.version + 1 || ':0:job.completed', v_at)::public.fd_told;
  elsif v_active <> j.active_steps then
    update public.tasks_app_job set active_steps = v_active where id = p_job;
  end if;
end $$;

-- Complete attempts of steps and release what follows each; then, where p_lanes names any and every one was done
-- (else what follows the others has its turn first), take the next steps as fd_steps_take does. p_done: [{job, step, attempt, outputs, trace}], in the order in which they ended. Answers
-- {done: of each whether it was (fd_step_end), released: the lanes of the steps that became ready, claim: the
-- answer of fd_steps_take}; null, and nothing was written, where a guard stands on an edge.
create function public.fd_steps_done(
    p_done jsonb, p_told text[], p_lanes text[], p_many int, p_short text[], p_lease_s double precision, p_why jsonb,
    p_next_trace text, p_at timestamptz) returns json
language plpgsql security definer set search_path = pg_catalog, public, pg_temp
  set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
declare
  v_entries public.fd_entry[] := '{}';
  v_events public.fd_told[] := '{}';
  v_released text[] := '{}';
  v_done boolean[] := '{}';
  v_claim json;
  d record;
  v_end record;
begin
  if public.fd_steps_guarded() then return null; end if;
  if jsonb_array_length(p_done) > 1 then
    -- Two workers, each with steps of both of two jobs, wait for each other in one direction.
    perform 1 from public.tasks_app_job
      where id in (select (e ->> 'job')::uuid from jsonb_array_elements(p_done) e)
      order by id for no key update;
  end if;
  for d in
    select * from jsonb_to_recordset(p_done) as e (job uuid, step uuid, attempt int, outputs jsonb, trace text)
  loop
    v_end := public.fd_step_end(d.job, d.step, d.attempt, d.outputs, p_told, p_why, d.trace, p_at);
    v_done := v_done || v_end.done;
    if v_end.done then
      v_entries := v_entries || v_end.entries;
      v_events := v_events || v_end.events;
      v_released := v_released || v_end.released;
    end if;
  end loop;
  if p_lanes is null or false = any (v_done) then
    perform public.fd_step_write(v_entries, v_events);
  else
    v_claim := public.fd_steps_take(p_lanes, p_many, p_short, p_lease_s, p_why, p_next_trace, p_at, v_entries, v_events);
  end if;
  return json_build_object('done', v_done, 'released', v_released, 'claim', v_claim);
end $$;
