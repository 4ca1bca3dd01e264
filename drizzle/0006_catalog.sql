-- Who publishes the catalog: one tenant runs it for the deployment, and one client a service publishes there (SPEC section 2).
create table operator_tenant (
  only_row boolean primary key default true constraint one_tenant_is_the_operator check (only_row),
  tenant_id text not null unique references tenant (id)
);
--> statement-breakpoint
create table service_client (
  id text primary key,
  tenant_id text not null constraint service_client_is_of_the_operator references operator_tenant (tenant_id),
  service_id text not null references service (id) constraint a_service_has_one_client unique,
  secret_hash text constraint service_secret_is_kept_as_sha256 check (secret_hash ~ '^[0-9a-f]{64}$'),
  jwks jsonb,
  status text not null default 'active' check (status in ('active', 'disabled')),
  created_at timestamptz(3) not null,
  constraint service_client_has_a_credential check (secret_hash is not null or jwks is not null),
  unique (tenant_id, id)
);
--> statement-breakpoint
-- What was in force of the service from this version on, so that versions can be compared and gone back to. Absent on what
-- was published before slices were kept.
alter table registry add column slice jsonb;
--> statement-breakpoint
alter table registry add column how text not null default 'published'
  constraint registry_says_how check (how in ('published', 'approved', 'rolled_back'));
--> statement-breakpoint
create index registry_by_service on registry (service_id, version desc);
--> statement-breakpoint
create function registry_is_append_only() returns trigger language plpgsql as $$
begin
  raise exception 'registry_is_append_only' using errcode = 'check_violation', constraint = 'registry_is_append_only';
end $$;
--> statement-breakpoint
create trigger registry_is_append_only before update or delete on registry
  for each row execute function registry_is_append_only();
--> statement-breakpoint
-- What a service asked for and security has to allow: the whole slice, and which of its changes loosen.
create table catalog_proposal (
  id text primary key,
  tenant_id text not null references operator_tenant (tenant_id),
  service_id text not null references service (id),
  slice jsonb not null,
  changes jsonb not null,
  status text not null default 'open' check (status in ('open', 'approved', 'sent_back', 'replaced')),
  proposed_by text not null,
  proposed_how text not null constraint proposal_says_how check (proposed_how in ('published', 'rolled_back')),
  created_at timestamptz(3) not null,
  -- Approved as this version.
  version integer references registry (version),
  reviewed_by text,
  reviewed_at timestamptz(3),
  comment text,
  constraint a_review_is_by_a_person_of_the_operator foreign key (tenant_id, reviewed_by) references app_user (tenant_id, id),
  constraint reviewed_says_by_whom_and_when check
    ((status in ('approved', 'sent_back')) = (reviewed_by is not null) and (reviewed_by is null) = (reviewed_at is null)),
  constraint approved_is_a_version check ((status = 'approved') = (version is not null)),
  unique (tenant_id, id)
);
--> statement-breakpoint
create unique index a_service_has_one_open_proposal on catalog_proposal (service_id) where status = 'open';
--> statement-breakpoint
create index catalog_proposal_by_time on catalog_proposal (tenant_id, created_at desc, id desc);
--> statement-breakpoint
create function proposal_is_reviewed_once() returns trigger language plpgsql as $$
begin
  if old.status <> 'open' or
     (new.id, new.tenant_id, new.service_id, new.slice, new.changes, new.proposed_by, new.proposed_how, new.created_at) is distinct from
     (old.id, old.tenant_id, old.service_id, old.slice, old.changes, old.proposed_by, old.proposed_how, old.created_at) then
    raise exception 'proposal_is_reviewed_once' using errcode = 'check_violation', constraint = 'proposal_is_reviewed_once';
  end if;
  return new;
end $$;
--> statement-breakpoint
create trigger proposal_is_reviewed_once before update on catalog_proposal
  for each row execute function proposal_is_reviewed_once();
--> statement-breakpoint
-- A bit is a permission's for ever, and so are its service and its kind; a row never goes, or its bit would be free again.
create function permission_stays_what_it_is() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' or (new.id, new.bit, new.kind, new.service_id) is distinct from (old.id, old.bit, old.kind, old.service_id) then
    raise exception 'permission_stays_what_it_is' using errcode = 'check_violation', constraint = 'permission_stays_what_it_is';
  end if;
  return null;
end $$;
--> statement-breakpoint
create trigger permission_stays_what_it_is after update or delete on permission
  for each row execute function permission_stays_what_it_is();
--> statement-breakpoint
-- As it was, and I2: whatever decided it, nothing is granted that has left the catalog.
create or replace function grant_is_what_may_be_given() returns trigger language plpgsql as $$
declare granted permission;
begin
  if tg_op = 'UPDATE' then
    if (to_jsonb(new) - 'uses' - 'last_used_at') is distinct from (to_jsonb(old) - 'uses' - 'last_used_at') then
      raise exception 'grant_is_what_was_given' using errcode = 'check_violation', constraint = 'grant_is_what_was_given';
    end if;
    return new;
  end if;
  select * into granted from permission where id = new.permission_id;
  if granted.retired then
    raise exception 'retired_is_never_granted' using errcode = 'check_violation', constraint = 'retired_is_never_granted';
  end if;
  -- I8: whatever the row says of itself, the catalog's mark counts.
  if new.source <> 'user' and granted.sensitive then
    raise exception 'sensitive_is_granted_only_by_the_users_answer'
      using errcode = 'check_violation', constraint = 'sensitive_is_granted_only_by_the_users_answer';
  end if;
  -- I9: the very item, and no more than to read where the parent only reads.
  if new.source = 'inherited' and not exists (
    select from access_grant p where p.id = new.inherited_from and p.resource is not distinct from new.resource
      and p.narrow is not distinct from new.narrow and (new.read_only or not p.read_only)) then
    raise exception 'inherited_is_the_parents_own'
      using errcode = 'check_violation', constraint = 'inherited_is_the_parents_own';
  end if;
  return new;
end $$;
