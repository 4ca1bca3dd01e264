-- What each endpoint of a service asks for: data, so that it changes without a release (SPEC section 9). The deployment's,
-- like the catalog.
create table endpoint (
  service_id text not null references service (id),
  method text not null constraint endpoint_method_is_a_token check (method ~ '^[A-Z]{1,16}$'),
  -- Segments below the service's mount, as in /accounts/{id}; {name} stands for exactly one segment that is not empty.
  pattern text not null constraint endpoint_pattern_is_a_path check
    (pattern ~ '^/$|^(/([A-Za-z0-9._~!$&''()+,=:@-]+|\{[a-z][a-z0-9_]*\}))+/?$' and pattern !~ '/\.{1,2}(/|$)'),
  access text not null check (access in ('OPEN', 'AUTHENTICATED', 'ACCESS_CONTROLLED')),
  primary key (service_id, method, pattern)
);
--> statement-breakpoint
-- Any one of these is enough. An ACCESS_CONTROLLED endpoint that lists none lets nobody in.
create table endpoint_permission (
  service_id text not null,
  method text not null,
  pattern text not null,
  permission_id text not null references permission (id),
  primary key (service_id, method, pattern, permission_id),
  constraint permission_is_of_an_endpoint foreign key (service_id, method, pattern)
    references endpoint (service_id, method, pattern) on delete cascade
);
--> statement-breakpoint
-- A reverse proxy of a tenant that asks forward-auth: authenticated by a secret of its own, kept as its SHA-256.
create table gateway_proxy (
  id text primary key,
  tenant_id text not null references tenant (id),
  name text not null,
  secret_hash text not null constraint proxy_secret_is_kept_as_sha256 check (secret_hash ~ '^[0-9a-f]{64}$'),
  created_at timestamptz(3) not null,
  constraint proxy_name_is_unique_in_its_tenant unique (tenant_id, name),
  constraint proxy_secret_names_one_proxy unique (tenant_id, secret_hash),
  unique (tenant_id, id)
);
--> statement-breakpoint
-- Below which path a proxy exposes which service. Never read from a request: whoever names the service chooses its rules.
create table gateway_mount (
  tenant_id text not null,
  proxy_id text not null,
  prefix text not null constraint mount_prefix_is_a_path check
    (prefix ~ '^/$|^(/[A-Za-z0-9._~!$&''()+,=:@-]+)+$' and prefix !~ '/\.{1,2}(/|$)'),
  service_id text not null references service (id),
  primary key (proxy_id, prefix),
  constraint mount_is_of_the_proxys_tenant foreign key (tenant_id, proxy_id)
    references gateway_proxy (tenant_id, id) on delete cascade
);
--> statement-breakpoint

-- What enforcement must hear of: written in the transaction of the change, by whatever statement made it, and read by every
-- instance for itself in an order that skips no late commit. Apart from `feed`, whose rows wait for one job's work.
create table gateway_feed (
  id bigint generated always as identity primary key,
  xid xid8 not null default pg_current_xact_id(),
  tenant_id text not null,
  user_id text,
  topic text not null constraint gateway_topic_is_known check
    (topic in ('session_narrowed', 'frozen_changed', 'person_changed', 'gateway_changed')),
  data jsonb not null,
  at timestamptz(3) not null
);
--> statement-breakpoint
create index gateway_feed_in_commit_order on gateway_feed (xid, id);
--> statement-breakpoint
create index gateway_feed_by_age on gateway_feed (at);
--> statement-breakpoint
create function access_change_is_told() returns trigger language plpgsql as $$
begin
  insert into gateway_feed (tenant_id, user_id, topic, data, at)
  values (new.tenant_id, new.user_id, 'person_changed', '{}', clock_timestamp());
  return null;
end $$;
--> statement-breakpoint
create trigger access_change_is_told after insert on feed for each row when (new.topic = 'access_changed')
  execute function access_change_is_told();
--> statement-breakpoint
-- Whatever raises a session's version or ends it is told of in its own commit, whichever statement did it.
create function session_narrowing_is_told() returns trigger language plpgsql as $$
begin
  insert into gateway_feed (tenant_id, user_id, topic, data, at)
  values (new.tenant_id, new.user_id, 'session_narrowed',
    jsonb_build_object('sid', new.id, 'version', new.version, 'active', new.status = 'active'),
    clock_timestamp());
  return null;
end $$;
--> statement-breakpoint
create trigger session_narrowing_is_told after update of version, status on session for each row
  when (new.version is distinct from old.version or new.status is distinct from old.status)
  execute function session_narrowing_is_told();
--> statement-breakpoint
create function freeze_is_told() returns trigger language plpgsql as $$
begin
  insert into gateway_feed (tenant_id, user_id, topic, data, at)
  values (coalesce(new.tenant_id, old.tenant_id), null, 'frozen_changed', '{}', clock_timestamp());
  return null;
end $$;
--> statement-breakpoint
create trigger freeze_is_told after insert or delete or update on frozen for each row execute function freeze_is_told();
--> statement-breakpoint
create function person_status_is_told() returns trigger language plpgsql as $$
begin
  insert into gateway_feed (tenant_id, user_id, topic, data, at)
  values (new.tenant_id, new.id, 'person_changed', '{}', clock_timestamp());
  return null;
end $$;
--> statement-breakpoint
create trigger person_status_is_told after update of status on app_user for each row
  when (new.status is distinct from old.status) execute function person_status_is_told();
--> statement-breakpoint
-- What a gateway holds in memory has changed. Carries nothing: whoever hears of it reads all of it again.
create function gateway_metadata_is_told() returns trigger language plpgsql as $$
begin
  insert into gateway_feed (tenant_id, user_id, topic, data, at)
  values ('', null, 'gateway_changed', '{}', clock_timestamp());
  return null;
end $$;
--> statement-breakpoint
create trigger gateway_metadata_is_told after insert on tenant
  for each statement execute function gateway_metadata_is_told();
--> statement-breakpoint
create trigger gateway_metadata_is_told after insert or update or delete on endpoint
  for each statement execute function gateway_metadata_is_told();
--> statement-breakpoint
create trigger gateway_metadata_is_told after insert or update or delete on endpoint_permission
  for each statement execute function gateway_metadata_is_told();
--> statement-breakpoint
create trigger gateway_metadata_is_told after insert or update or delete on gateway_proxy
  for each statement execute function gateway_metadata_is_told();
--> statement-breakpoint
create trigger gateway_metadata_is_told after insert or update or delete on gateway_mount
  for each statement execute function gateway_metadata_is_told();
--> statement-breakpoint
create trigger gateway_metadata_is_told after insert or update or delete on resource_server
  for each statement execute function gateway_metadata_is_told();
--> statement-breakpoint
create trigger gateway_metadata_is_told after insert or update or delete on registry
  for each statement execute function gateway_metadata_is_told();
--> statement-breakpoint
create trigger gateway_metadata_is_told after insert or update or delete on permission
  for each statement execute function gateway_metadata_is_told();
--> statement-breakpoint
create trigger gateway_metadata_is_told after insert or update or delete on signing_key
  for each statement execute function gateway_metadata_is_told();
--> statement-breakpoint
create trigger gateway_metadata_is_told after insert or update or delete on identity_provider
  for each statement execute function gateway_metadata_is_told();
--> statement-breakpoint
-- The furthest row of gateway_feed that was ever deleted: a follower whose place lies before it has missed something.
create table gateway_feed_trimmed (
  only_row boolean primary key default true constraint feed_is_trimmed_at_one_place check (only_row),
  xid xid8 not null,
  id bigint not null
);
--> statement-breakpoint
create function gateway_feed_trimming_is_told() returns trigger language plpgsql as $$
begin
  insert into gateway_feed_trimmed as t (xid, id) select xid, id from gone order by xid desc, id desc limit 1
  on conflict (only_row) do update set xid = excluded.xid, id = excluded.id
    where (t.xid, t.id) < (excluded.xid, excluded.id);
  return null;
end $$;
--> statement-breakpoint
create trigger gateway_feed_trimming_is_told after delete on gateway_feed referencing old table as gone
  for each statement execute function gateway_feed_trimming_is_told();
