-- A tenant's own backend program: no person and no agent. What it may call it holds by itself, given by an admin, and it can
-- neither be an agent nor be lent anything (I13): no table of sessions, grants or agents points here or can be pointed at.
create table service_account (
  id text primary key constraint service_account_is_no_other_kind check (id ~ '^svc_[A-Za-z0-9_-]{1,64}$'),
  tenant_id text not null references tenant (id),
  name text not null,
  status text not null default 'active' constraint service_account_status_is_known
    check (status in ('active', 'disabled')),
  -- Raised by whatever takes something back. Tokens of an older one are dead.
  version integer not null default 1 check (version >= 1),
  secret_hash text constraint service_account_secret_is_kept_as_sha256 check (secret_hash ~ '^[0-9a-f]{64}$'),
  previous_secret_hash text constraint service_account_previous_secret_is_kept_as_sha256
    check (previous_secret_hash ~ '^[0-9a-f]{64}$'),
  previous_secret_until timestamptz(3),
  jwks jsonb,
  created_at timestamptz(3) not null,
  constraint service_account_has_a_credential check (secret_hash is not null or jwks is not null),
  constraint service_account_previous_secret_has_an_end
    check ((previous_secret_hash is null) = (previous_secret_until is null)),
  constraint service_account_previous_secret_is_another check (previous_secret_hash <> secret_hash),
  constraint service_account_name_is_unique_in_its_tenant unique (tenant_id, name),
  unique (tenant_id, id)
);
--> statement-breakpoint
create table service_account_permission (
  id text primary key,
  tenant_id text not null,
  service_account_id text not null,
  permission_id text not null references permission (id),
  created_at timestamptz(3) not null,
  constraint permission_goes_to_a_service_account foreign key (tenant_id, service_account_id)
    references service_account (tenant_id, id) on delete cascade,
  constraint service_account_permission_is_given_once unique (service_account_id, permission_id)
);
--> statement-breakpoint
create index service_account_permission_by_permission on service_account_permission (permission_id);
--> statement-breakpoint
-- Whichever statement takes something back, the version rises in its commit; it never falls.
create function service_account_narrowing_raises_its_version() returns trigger language plpgsql as $$
begin
  if new.version < old.version then
    raise exception 'a service account''s version never falls' using constraint = 'service_account_version_never_falls';
  end if;
  if (new.status <> old.status and new.status = 'disabled')
    or new.secret_hash is distinct from old.secret_hash or new.jwks is distinct from old.jwks then
    new.version := greatest(new.version, old.version + 1);
  end if;
  return new;
end $$;
--> statement-breakpoint
create trigger service_account_narrowing_raises_its_version before update on service_account for each row
  execute function service_account_narrowing_raises_its_version();
--> statement-breakpoint
create function service_account_loss_raises_its_version() returns trigger language plpgsql as $$
begin
  update service_account set version = version + 1
  where tenant_id = old.tenant_id and id = old.service_account_id;
  return null;
end $$;
--> statement-breakpoint
create trigger service_account_loss_raises_its_version after delete or update on service_account_permission
  for each row execute function service_account_loss_raises_its_version();
--> statement-breakpoint
-- A permission that is retired, or that no longer may be held by a program, is taken from all who have it.
create function permission_loss_raises_service_versions() returns trigger language plpgsql as $$
begin
  update service_account set version = version + 1
  where id in (select service_account_id from service_account_permission where permission_id = new.id);
  return null;
end $$;
--> statement-breakpoint
create trigger permission_loss_raises_service_versions after update of retired, delegable, kind on permission
  for each row when ((new.retired and not old.retired) or (old.delegable and not new.delegable) or new.kind <> old.kind)
  execute function permission_loss_raises_service_versions();
--> statement-breakpoint
alter table gateway_feed drop constraint gateway_topic_is_known;
--> statement-breakpoint
alter table gateway_feed add constraint gateway_topic_is_known check
  (topic in ('session_narrowed', 'service_narrowed', 'frozen_changed', 'person_changed', 'gateway_changed'));
--> statement-breakpoint
create function service_narrowing_is_told() returns trigger language plpgsql as $$
begin
  insert into gateway_feed (tenant_id, user_id, topic, data, at)
  values (new.tenant_id, null, 'service_narrowed',
    jsonb_build_object('sid', new.id, 'version', new.version, 'active', new.status = 'active'),
    clock_timestamp());
  return null;
end $$;
--> statement-breakpoint
create trigger service_narrowing_is_told after update of version, status, secret_hash, jwks on service_account for each row
  when (new.version is distinct from old.version) execute function service_narrowing_is_told();
--> statement-breakpoint
create trigger gateway_metadata_is_told after insert or update or delete on service_account
  for each statement execute function gateway_metadata_is_told();
