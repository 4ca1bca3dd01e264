-- The record by months (SPEC section 11): what is past its retention goes as whole months, and nothing else ever goes.

alter table activity rename to activity_before_months;
--> statement-breakpoint
alter table activity_permission rename to activity_permission_unsorted;
--> statement-breakpoint
-- Names are kept for what comes: an index is one of a kind in its schema.
do $$
declare
  index record;
begin
  for index in select c.relname as name from pg_index i join pg_class c on c.oid = i.indexrelid
    where i.indrelid in ('activity_before_months'::regclass, 'activity_permission_unsorted'::regclass)
  loop
    execute format('alter index %I rename to %I', index.name, index.name || '_before_months');
  end loop;
end $$;
--> statement-breakpoint
drop trigger activity_is_append_only on activity_before_months;
--> statement-breakpoint
drop trigger record_is_found_by_its_permissions on activity_before_months;
--> statement-breakpoint
alter table activity_before_months alter n drop identity;
--> statement-breakpoint
alter table activity_before_months drop constraint activity_pkey_before_months;
--> statement-breakpoint
create unique index place_is_one_before_months on activity_before_months (n);
--> statement-breakpoint
create table activity (
  n bigint generated always as identity,
  id text not null,
  tenant_id text not null references tenant (id),
  chain text not null,
  seq integer not null,
  at timestamptz(3) not null,
  type text not null,
  agent_id text,
  user_id text,
  session_id text,
  root_session_id text,
  template text,
  data jsonb not null,
  prev_hash text not null,
  hash text not null,
  xid xid8 not null default pg_current_xact_id(),
  constraint session_records_are_on_their_sessions_chain check (chain = coalesce(session_id, tenant_id)),
  -- I12
  constraint session_record_names_agent_user_and_session check
    (session_id is null or (agent_id is not null and user_id is not null and root_session_id is not null))
) partition by range (at);
--> statement-breakpoint
create index activity_by_time on activity (tenant_id, n desc);
--> statement-breakpoint
create index activity_by_root on activity (tenant_id, root_session_id, n desc);
--> statement-breakpoint
create index activity_by_user on activity (tenant_id, user_id, n desc);
--> statement-breakpoint
create index activity_by_agent on activity (tenant_id, agent_id, n desc);
--> statement-breakpoint
create index activity_by_type on activity (tenant_id, type, n desc);
--> statement-breakpoint
create index activity_by_at on activity (at);
--> statement-breakpoint
create index activity_by_template on activity (tenant_id, split_part(template, '@', 1), n desc) where template is not null;
--> statement-breakpoint
create index activity_of_a_user_in_commit_order on activity (tenant_id, user_id, xid, n);
--> statement-breakpoint
create trigger activity_is_append_only before update or delete on activity
  for each row execute function activity_is_append_only();
--> statement-breakpoint
create trigger activity_is_not_truncated before truncate on activity
  for each statement execute function activity_is_append_only();
--> statement-breakpoint
-- With its time, so that it goes with the record.
create table activity_permission (
  tenant_id text not null,
  permission text not null,
  n bigint not null,
  at timestamptz(3) not null,
  primary key (tenant_id, permission, n, at)
) partition by range (at);
--> statement-breakpoint
create or replace function record_is_found_by_its_permissions() returns trigger language plpgsql as $$
begin
  insert into activity_permission (tenant_id, permission, n, at)
  select distinct new.tenant_id, p, new.n, new.at from jsonb_array_elements_text(
    jsonb_path_query_array(new.data, '$.permission') || jsonb_path_query_array(new.data, '$.items[*].permission')) as p;
  return null;
end $$;
--> statement-breakpoint
create trigger record_is_found_by_its_permissions after insert on activity for each row
  when (new.data ?| array['permission', 'items']) execute function record_is_found_by_its_permissions();
--> statement-breakpoint
-- What a unique index over all months would have to know, each month knows of itself: within it no chain forks, no place and
-- no record is there twice. Across months the head in the session's or tenant's row keeps a chain one.
create function activity_part_is_sound(part text, suffix text) returns void language plpgsql as $$
begin
  execute format('create unique index %I on %I (chain, seq)', 'chain_does_not_fork_' || suffix, part);
  execute format('create unique index %I on %I (id)', 'record_is_there_once_' || suffix, part);
  execute format('create unique index %I on %I (n)', 'place_is_one_' || suffix, part);
  execute format('create trigger activity_is_not_truncated before truncate on %I
    for each statement execute function activity_is_append_only()', part);
end $$;
--> statement-breakpoint
-- Makes the parts of one calendar month (UTC), if they are not there. Safe for several at once, and while others write: a
-- part is made apart and then attached.
create function make_activity_month(month date) returns boolean language plpgsql as $$
declare
  suffix constant text := to_char(month, 'YYYY_MM');
  from_time constant timestamptz := month::timestamp at time zone 'UTC';
  to_time constant timestamptz := (month + interval '1 month')::timestamp at time zone 'UTC';
begin
  perform pg_advisory_xact_lock(hashtextextended('lend:activity_months', 0));
  if to_regclass('activity_' || suffix) is not null then
    return false;
  end if;
  -- Old months that stand in one part, or records of a clock that was far ahead: they have their place already.
  if exists (select from activity_months m where m.starts < to_time and m.ends > from_time) then
    return false;
  end if;
  if exists (select from activity_out_of_months where at >= from_time and at < to_time) then
    return false;
  end if;
  execute format('create table %I (like activity including defaults including constraints)', 'activity_' || suffix);
  perform activity_part_is_sound('activity_' || suffix, suffix);
  execute format('alter table activity attach partition %I for values from (%L) to (%L)', 'activity_' || suffix, from_time, to_time);
  execute format('create table %I (like activity_permission including constraints)', 'activity_permission_' || suffix);
  execute format('alter table activity_permission attach partition %I for values from (%L) to (%L)',
    'activity_permission_' || suffix, from_time, to_time);
  insert into activity_months (part, starts, ends) values ('activity_' || suffix, from_time, to_time);
  return true;
end $$;
--> statement-breakpoint
-- The only way that records go: a whole part, with a checkpoint that vouches for what hung on it.
create function drop_activity_part(gone text) returns void language plpgsql as $$
begin
  delete from activity_months m where m.part = gone
    and exists (select from activity_checkpoint c where (c.cut ->> 'before')::timestamptz = m.ends);
  if not found then
    raise exception 'only_what_a_checkpoint_vouches_for_goes' using errcode = 'check_violation';
  end if;
  execute format('alter table activity detach partition %I', gone);
  execute format('alter table activity_permission detach partition %I', replace(gone, 'activity_', 'activity_permission_'));
  execute format('drop table %I, %I', gone, replace(gone, 'activity_', 'activity_permission_'));
end $$;
--> statement-breakpoint
-- Which parts there are, but the one for everything else. `starts` of what was there before months is the beginning of time.
create table activity_months (
  part text primary key,
  starts timestamptz not null,
  ends timestamptz not null
);
--> statement-breakpoint
-- A record must find a place whatever its clock says.
create table activity_out_of_months partition of activity default;
--> statement-breakpoint
select activity_part_is_sound('activity_out_of_months', 'out_of_months');
--> statement-breakpoint
create table activity_permission_out_of_months partition of activity_permission default;
--> statement-breakpoint
do $$
declare
  ends constant timestamptz := (date_trunc('month', now() at time zone 'UTC') + interval '1 month') at time zone 'UTC';
begin
  if exists (select from activity_before_months) then
    perform setval(pg_get_serial_sequence('activity', 'n'), (select max(n) + 1 from activity_before_months), false);
    execute format('alter table activity attach partition activity_before_months for values from (minvalue) to (%L)', ends);
    execute format('create table activity_permission_before_months partition of activity_permission
      for values from (minvalue) to (%L)', ends);
    insert into activity_months values ('activity_before_months', '-infinity', ends);
    insert into activity_permission (tenant_id, permission, n, at)
    select p.tenant_id, p.permission, p.n, a.at from activity_permission_unsorted p join activity a using (n);
  else
    drop table activity_before_months;
  end if;
  drop table activity_permission_unsorted;
  perform make_activity_month((date_trunc('month', now() at time zone 'UTC') + interval '1 month' * m)::date)
  from generate_series(0, 2) as m;
end $$;
--> statement-breakpoint
-- What a checkpoint says of the months that went: see src/flows/retention.ts.
alter table activity_checkpoint add column cut jsonb;
