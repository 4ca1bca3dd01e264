-- The first schema. Constraints are named after the rule they enforce; I-numbers are SPEC section 10's invariants.
-- The deployment's: catalog, templates.

-- One short value per JSON value, for keys: a filter may be longer than an index row. jsonb is canonical, and its text
-- depends on no setting.
create function digest_of(value jsonb) returns text language sql immutable strict parallel safe as $$
  select encode(sha256(convert_to(value::text, 'UTF8')), 'hex')
$$;
--> statement-breakpoint
create table tenant (
  id text primary key,
  slug text not null constraint tenant_slug_is_unique unique
    constraint tenant_slug_is_a_dns_label check (slug ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
  name text not null,
  created_at timestamptz(3) not null
);
--> statement-breakpoint
create table service (
  id text primary key,
  title text not null
);
--> statement-breakpoint
create table registry (
  version integer primary key,
  service_id text not null references service (id),
  published_at timestamptz(3) not null,
  published_by text not null
);
--> statement-breakpoint
create table permission (
  id text primary key constraint permission_id_is_name_colon_action
    check (id ~ '^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*:[a-z][a-z0-9_-]*$'),
  kind text not null check (kind in ('api', 'data', 'asset', 'tool')),
  title text not null,
  description text not null,
  service_id text not null references service (id),
  access text not null check (access in ('read', 'write', 'admin')),
  risk text not null check (risk in ('low', 'medium', 'high')),
  sensitive boolean not null default false,
  delegable boolean not null default true,
  enforced_at text not null check (enforced_at in ('gateway', 'data', 'asset', 'tool_gateway')),
  bit integer not null constraint permission_bit_is_never_reused unique,
  keywords text not null default '',
  data jsonb,
  asset jsonb,
  tool jsonb,
  registry_version integer not null references registry (version),
  retired boolean not null default false,
  search tsvector generated always as (
    setweight(to_tsvector('english', title), 'A')
    || setweight(to_tsvector('english', keywords), 'A')
    || setweight(to_tsvector('english', description), 'B')
    || setweight(to_tsvector('english', translate(id, '.:_-', '    ')), 'C')
  ) stored,
  constraint permission_carries_the_facts_of_its_kind check (
    (kind = 'data') = (data is not null) and (kind = 'asset') = (asset is not null) and (kind = 'tool') = (tool is not null)
  ),
  -- Grants point at this pair, so that what is held can never be made never-delegable (I2).
  unique (id, delegable)
);
--> statement-breakpoint
create index permission_search on permission using gin (search);
--> statement-breakpoint
create table template (
  id text primary key,
  name text not null constraint template_name_is_unique_on_the_deployment unique,
  title text not null,
  tenant_id text not null references tenant (id),
  visibility text not null check (visibility in ('private', 'public')),
  created_at timestamptz(3) not null
);
--> statement-breakpoint
create table template_version (
  template_id text not null references template (id),
  version integer not null check (version > 0),
  status text not null check (status in ('draft', 'in_review', 'published', 'retired')),
  purpose text not null,
  ceiling jsonb not null,
  context text not null,
  modes text[] not null constraint ask_is_always_allowed check ('ask' = any (modes) and modes <@ array['ask', 'auto', 'bypass']),
  limits jsonb not null,
  children jsonb not null,
  sensitive jsonb not null,
  sponsor text not null,
  author text not null,
  reviewer text constraint reviewer_is_not_the_author check (reviewer <> author),
  published_at timestamptz(3),
  constraint published_was_reviewed check (
    status in ('draft', 'in_review') or (reviewer is not null and published_at is not null)),
  primary key (template_id, version)
);
--> statement-breakpoint
create function published_version_is_immutable() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    if old.status in ('published', 'retired') then
      raise exception 'published_version_is_immutable' using errcode = 'check_violation';
    end if;
    return old;
  end if;
  if old.status in ('published', 'retired') and
     (to_jsonb(old) - 'status') is distinct from (to_jsonb(new) - 'status') then
    raise exception 'published_version_is_immutable' using errcode = 'check_violation';
  end if;
  if old.status in ('published', 'retired') and new.status not in (old.status, 'retired') then
    raise exception 'published_version_is_immutable' using errcode = 'check_violation';
  end if;
  return new;
end $$;
--> statement-breakpoint
create trigger published_version_is_immutable before update or delete on template_version
  for each row execute function published_version_is_immutable();
--> statement-breakpoint

-- A tenant's own: people and what they may do. No table of standing access can point at an agent or a session (I13).

create table identity_provider (
  id text primary key,
  tenant_id text not null references tenant (id),
  issuer text not null,
  audience text not null,
  first_party_clients text[] not null,
  -- Lend's own client there, with which people sign in to the web page; without it they cannot.
  web_client_id text,
  web_client_secret text,
  creates_users boolean not null default false,
  private_network boolean not null default false,
  status text not null default 'active' check (status in ('active', 'disabled')),
  created_at timestamptz(3) not null,
  constraint issuer_is_unique_in_its_tenant unique (tenant_id, issuer),
  unique (tenant_id, id)
);
--> statement-breakpoint
create table app_user (
  id text primary key,
  tenant_id text not null references tenant (id),
  issuer text not null,
  subject text not null,
  login text not null,
  name text not null,
  email text,
  attributes jsonb not null default '{}',
  staff_roles text[] not null default '{}'
    constraint staff_role_is_known check (staff_roles <@ array['org_admin', 'auditor', 'builder', 'reviewer']),
  status text not null default 'active' check (status in ('active', 'disabled')),
  created_at timestamptz(3) not null,
  constraint user_is_keyed_by_tenant_issuer_subject unique (tenant_id, issuer, subject),
  constraint login_is_unique_in_its_tenant unique (tenant_id, login),
  unique (tenant_id, id)
);
--> statement-breakpoint
create table user_group (
  id text primary key,
  tenant_id text not null references tenant (id),
  name text not null,
  created_at timestamptz(3) not null,
  unique (tenant_id, name),
  unique (tenant_id, id)
);
--> statement-breakpoint
create table group_member (
  tenant_id text not null,
  group_id text not null,
  user_id text not null,
  primary key (group_id, user_id),
  constraint member_is_of_the_groups_tenant foreign key (tenant_id, group_id) references user_group (tenant_id, id) on delete cascade,
  constraint member_is_a_user foreign key (tenant_id, user_id) references app_user (tenant_id, id) on delete cascade
);
--> statement-breakpoint
create index group_member_by_user on group_member (user_id);
--> statement-breakpoint
create table role (
  id text primary key,
  tenant_id text not null references tenant (id),
  name text not null,
  created_at timestamptz(3) not null,
  unique (tenant_id, name),
  unique (tenant_id, id)
);
--> statement-breakpoint
create table role_permission (
  role_id text not null references role (id) on delete cascade,
  permission_id text not null references permission (id),
  resource text,
  constraint role_permission_is_listed_once unique nulls not distinct (role_id, permission_id, resource)
);
--> statement-breakpoint
create table role_assignment (
  id text primary key,
  tenant_id text not null,
  role_id text not null,
  user_id text,
  group_id text,
  created_at timestamptz(3) not null,
  constraint role_goes_to_a_user_or_a_group check ((user_id is null) <> (group_id is null)),
  constraint assigned_role_is_of_the_tenant foreign key (tenant_id, role_id) references role (tenant_id, id) on delete cascade,
  constraint assignee_is_a_user foreign key (tenant_id, user_id) references app_user (tenant_id, id) on delete cascade,
  constraint assignee_is_a_group foreign key (tenant_id, group_id) references user_group (tenant_id, id) on delete cascade,
  constraint role_is_assigned_once unique nulls not distinct (role_id, user_id, group_id)
);
--> statement-breakpoint
create index role_assignment_by_user on role_assignment (user_id);
--> statement-breakpoint
create index role_assignment_by_group on role_assignment (group_id);
--> statement-breakpoint
create table user_permission (
  id text primary key,
  tenant_id text not null,
  user_id text not null,
  permission_id text not null references permission (id),
  resource text,
  created_at timestamptz(3) not null,
  constraint permission_goes_to_a_user foreign key (tenant_id, user_id) references app_user (tenant_id, id) on delete cascade,
  constraint user_permission_is_given_once unique nulls not distinct (user_id, permission_id, resource)
);
--> statement-breakpoint
-- All that a person may do now, and by what.
create view user_access as
  select tenant_id, user_id, permission_id, resource, 'direct' as via, id as via_id, null::text as group_id
    from user_permission
  union all
  select a.tenant_id, a.user_id, p.permission_id, p.resource, 'role', a.role_id, null
    from role_assignment a join role_permission p on p.role_id = a.role_id where a.user_id is not null
  union all
  select a.tenant_id, m.user_id, p.permission_id, p.resource, 'group', a.role_id, a.group_id
    from role_assignment a join group_member m on m.group_id = a.group_id join role_permission p on p.role_id = a.role_id;
--> statement-breakpoint
create table restriction (
  id text primary key,
  tenant_id text not null,
  user_id text,
  group_id text,
  entity text not null,
  blocks jsonb,
  masks text[] not null default '{}',
  created_at timestamptz(3) not null,
  constraint restriction_is_of_a_user_or_a_group check ((user_id is null) <> (group_id is null)),
  constraint restricted_is_a_user foreign key (tenant_id, user_id) references app_user (tenant_id, id) on delete cascade,
  constraint restricted_is_a_group foreign key (tenant_id, group_id) references user_group (tenant_id, id) on delete cascade
);
--> statement-breakpoint

-- A tenant's agents, templates turned on, enforcement.

create table agent (
  id text primary key,
  tenant_id text not null references tenant (id),
  name text not null,
  status text not null default 'active' check (status in ('active', 'disabled')),
  secret_hash text,
  jwks jsonb,
  app_clients text[] not null,
  template_ids text[] not null,
  created_at timestamptz(3) not null,
  constraint agent_has_a_credential check (secret_hash is not null or jwks is not null),
  unique (tenant_id, name),
  unique (tenant_id, id)
);
--> statement-breakpoint
create table client_assertion (
  tenant_id text not null,
  client_id text not null,
  jti text not null,
  expires_at timestamptz(3) not null,
  constraint client_assertion_is_used_once primary key (tenant_id, client_id, jti)
);
--> statement-breakpoint
create index client_assertion_by_expiry on client_assertion (expires_at);
--> statement-breakpoint
create table resource_server (
  id text primary key,
  tenant_id text not null references tenant (id),
  resource text not null,
  name text not null,
  subject text not null default 'session' check (subject in ('session', 'user')),
  services text[] not null,
  created_at timestamptz(3) not null,
  constraint resource_is_unique_in_its_tenant unique (tenant_id, resource)
);
--> statement-breakpoint
create table enforcement_point (
  id text primary key,
  tenant_id text not null references tenant (id),
  name text not null,
  secret_hash text not null,
  services text[] not null,
  created_at timestamptz(3) not null,
  unique (tenant_id, id)
);
--> statement-breakpoint
create table enablement (
  tenant_id text not null references tenant (id),
  template_id text not null references template (id),
  status text not null check (status in ('on', 'off')),
  adopted_version integer not null,
  kept jsonb not null,
  modes text[] not null check ('ask' = any (modes)),
  limits jsonb not null,
  updated_at timestamptz(3) not null,
  primary key (tenant_id, template_id),
  constraint adopted_version_exists foreign key (template_id, adopted_version) references template_version (template_id, version)
);
--> statement-breakpoint
create table frozen (
  id text primary key,
  tenant_id text not null references tenant (id),
  scope text not null check (scope in ('tenant', 'template', 'agent', 'user')),
  target_id text not null,
  created_by text not null,
  created_at timestamptz(3) not null,
  constraint target_is_frozen_once unique (tenant_id, scope, target_id)
);
--> statement-breakpoint
create table signing_key (
  kid text primary key,
  tenant_id text not null references tenant (id),
  alg text not null check (alg in ('ES256', 'RS256')),
  private_jwk jsonb not null,
  public_jwk jsonb not null,
  status text not null check (status in ('next', 'active', 'retired')),
  created_at timestamptz(3) not null,
  retired_at timestamptz(3)
);
--> statement-breakpoint
create unique index one_active_key_a_tenant_and_alg on signing_key (tenant_id, alg) where status = 'active';
--> statement-breakpoint

-- Sessions and what they borrow.

create table session_transition (
  from_status text not null,
  to_status text not null,
  primary key (from_status, to_status)
);
--> statement-breakpoint
insert into session_transition values ('active', 'ended'), ('active', 'revoked'), ('active', 'expired');
--> statement-breakpoint
create table session (
  id text primary key,
  tenant_id text not null references tenant (id),
  root_id text not null,
  parent_id text,
  depth integer not null check (depth >= 0),
  user_id text not null,
  agent_id text not null,
  template_id text not null,
  template_version integer not null,
  mode text not null check (mode in ('ask', 'auto', 'bypass')),
  mode_expires_at timestamptz(3),
  status text not null default 'active' check (status in ('active', 'ended', 'revoked', 'expired')),
  end_reason text,
  read_only boolean not null default false,
  -- Raised by every narrowing; tokens that carry a lower number are dead (SPEC section 5).
  version integer not null default 1,
  task text,
  refresh_hash text constraint refresh_token_names_one_session unique,
  claimed_at timestamptz(3),
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  ended_at timestamptz(3),
  -- The head of this session's hash chain (SPEC section 11), moved under this row's lock.
  chain_seq integer not null default 0,
  chain_hash text not null default '',
  -- Times of the last minute's requests of the whole tree, on the root (SPEC section 3).
  request_times float8[] not null default '{}',
  constraint ended_says_when_and_why check ((status = 'active') = (ended_at is null) and (status = 'active') = (end_reason is null)),
  constraint root_is_its_own_root check ((parent_id is null) = (root_id = id) and (parent_id is null) = (depth = 0)),
  constraint session_is_of_a_user_of_its_tenant foreign key (tenant_id, user_id) references app_user (tenant_id, id),
  constraint session_is_of_an_agent_of_its_tenant foreign key (tenant_id, agent_id) references agent (tenant_id, id),
  constraint session_runs_a_template_version foreign key (template_id, template_version) references template_version (template_id, version),
  unique (id, status),
  unique (id, user_id),
  unique (id, parent_id),
  unique (tenant_id, id),
  unique (id, root_id, tenant_id, user_id)
);
--> statement-breakpoint
alter table session add constraint child_is_of_its_parents_tree_and_user
  foreign key (parent_id, root_id, tenant_id, user_id) references session (id, root_id, tenant_id, user_id);
--> statement-breakpoint
create index session_by_root on session (root_id);
--> statement-breakpoint
create index session_by_parent on session (parent_id) where parent_id is not null;
--> statement-breakpoint
create index session_live_by_user on session (user_id, agent_id) where status = 'active';
--> statement-breakpoint
create index session_live_by_expiry on session (expires_at) where status = 'active';
--> statement-breakpoint
create index session_live_by_template on session (tenant_id, template_id) where status = 'active';
--> statement-breakpoint
create index session_by_user_and_time on session (tenant_id, user_id, created_at desc);
--> statement-breakpoint
create function session_changes_are_legal() returns trigger language plpgsql as $$
declare looseness constant text[] := array['ask', 'auto', 'bypass'];
begin
  if (new.id, new.tenant_id, new.root_id, new.parent_id, new.depth, new.user_id, new.agent_id, new.template_id, new.template_version,
      new.read_only, new.created_at)
     is distinct from
     (old.id, old.tenant_id, old.root_id, old.parent_id, old.depth, old.user_id, old.agent_id, old.template_id, old.template_version,
      old.read_only, old.created_at) then
    raise exception 'session_is_whose_it_was' using errcode = 'check_violation';
  end if;
  if new.expires_at > old.expires_at then
    raise exception 'session_end_never_moves_out' using errcode = 'check_violation';
  end if;
  if new.version < old.version or new.chain_seq < old.chain_seq then
    raise exception 'session_version_only_rises' using errcode = 'check_violation';
  end if;
  -- I7: a mode is only ever tightened.
  if array_position(looseness, new.mode) > array_position(looseness, old.mode) then
    raise exception 'mode_is_never_loosened' using errcode = 'check_violation';
  end if;
  if new.mode = old.mode and (new.mode_expires_at is distinct from old.mode_expires_at)
     and (new.mode_expires_at is null or new.mode_expires_at > old.mode_expires_at) then
    raise exception 'mode_is_never_loosened' using errcode = 'check_violation';
  end if;
  if new.status <> old.status and not exists (
    select from session_transition t where t.from_status = old.status and t.to_status = new.status) then
    raise exception 'session_end_is_final' using errcode = 'check_violation';
  end if;
  if old.status <> 'active' and new.refresh_hash is distinct from old.refresh_hash and new.refresh_hash is not null then
    raise exception 'ended_session_gets_no_credential' using errcode = 'check_violation';
  end if;
  return new;
end $$;
--> statement-breakpoint
create trigger session_changes_are_legal before update on session
  for each row execute function session_changes_are_legal();
--> statement-breakpoint
create function child_starts_within_its_parent() returns trigger language plpgsql as $$
declare parent session;
declare looseness constant text[] := array['ask', 'auto', 'bypass'];
begin
  if new.parent_id is not null then
    -- Locked, so that an end that commits meanwhile is seen and one that comes later waits and sees the child.
    select * into parent from session where id = new.parent_id for key share;
    if parent.status <> 'active' or new.depth <> parent.depth + 1 or new.agent_id <> parent.agent_id
       or new.expires_at > parent.expires_at
       or array_position(looseness, new.mode) > array_position(looseness, parent.mode) then
      raise exception 'child_starts_within_its_parent' using errcode = 'check_violation';
    end if;
  end if;
  return new;
end $$;
--> statement-breakpoint
create trigger child_starts_within_its_parent before insert on session
  for each row execute function child_starts_within_its_parent();
--> statement-breakpoint
create function parent_ends_after_its_children() returns trigger language plpgsql as $$
begin
  if exists (select from session c where c.parent_id = new.id and c.status = 'active') then
    raise exception 'parent_ends_after_its_children' using errcode = 'check_violation';
  end if;
  return null;
end $$;
--> statement-breakpoint
-- I11: at commit no live session has a parent that is over.
create constraint trigger parent_ends_after_its_children after update of status on session
  deferrable initially deferred for each row when (new.status <> 'active')
  execute function parent_ends_after_its_children();
--> statement-breakpoint
create table consent_rule (
  id text primary key,
  tenant_id text not null,
  user_id text not null,
  template_id text not null references template (id),
  permission_id text not null references permission (id),
  resource text,
  narrow jsonb,
  effect text not null check (effect in ('allow', 'deny', 'ask')),
  status text not null default 'active' check (status in ('active', 'suspended')),
  created_from text,
  expires_at timestamptz(3),
  created_at timestamptz(3) not null,
  constraint rule_is_of_a_user foreign key (tenant_id, user_id) references app_user (tenant_id, id) on delete cascade,
  constraint only_allow_rules_are_suspended check (status = 'active' or effect = 'allow')
);
--> statement-breakpoint
create unique index rule_is_saved_once on consent_rule (user_id, template_id, effect, permission_id, resource, digest_of(narrow)) nulls not distinct;
--> statement-breakpoint
create function sensitive_is_never_remembered() returns trigger language plpgsql as $$
begin
  -- I8. A permission that becomes sensitive later makes its allow rules idle: sensitivity ranks above them.
  if new.effect = 'allow' and (select sensitive from permission where id = new.permission_id) then
    raise exception 'sensitive_is_never_remembered' using errcode = 'check_violation';
  end if;
  return new;
end $$;
--> statement-breakpoint
create trigger sensitive_is_never_remembered before insert or update of effect, permission_id on consent_rule
  for each row execute function sensitive_is_never_remembered();
--> statement-breakpoint
create table access_request (
  id text primary key,
  tenant_id text not null,
  session_id text not null,
  root_id text not null,
  user_id text not null,
  reason text not null,
  digest text not null,
  status text not null check (status in ('pending', 'settled')),
  note text,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  settled_at timestamptz(3),
  constraint request_is_of_its_sessions_user foreign key (session_id, root_id, tenant_id, user_id)
    references session (id, root_id, tenant_id, user_id),
  unique (id, user_id),
  unique (id, session_id)
);
--> statement-breakpoint
create index access_request_pending_by_user on access_request (user_id) where status = 'pending';
--> statement-breakpoint
create index access_request_by_user on access_request (user_id, created_at desc);
--> statement-breakpoint
create index access_request_by_root on access_request (root_id);
--> statement-breakpoint
create index access_request_pending_by_expiry on access_request (expires_at) where status = 'pending';
--> statement-breakpoint
create table request_item (
  id text primary key,
  request_id text not null,
  session_id text not null,
  position integer not null,
  permission_id text not null,
  resource text,
  narrow jsonb,
  -- What the user was shown when asked.
  sensitive boolean not null,
  asked_reason text,
  outcome text not null check (outcome in ('pending', 'granted', 'refused')),
  decision_reason text not null,
  rule_id text,
  -- I6: an answer is the session's own user's, or there is none.
  answered_by text,
  decided_at timestamptz(3),
  unique (request_id, position),
  constraint item_is_of_its_requests_session foreign key (request_id, session_id) references access_request (id, session_id),
  constraint only_the_sessions_own_user_answers foreign key (request_id, answered_by) references access_request (id, user_id),
  constraint a_users_end_names_the_user check (decision_reason not in ('allowed_by_user', 'denied_by_user') or answered_by is not null)
);
--> statement-breakpoint
create index request_item_by_session on request_item (session_id);
--> statement-breakpoint
create unique index nobody_is_asked_twice on request_item (session_id, permission_id, resource, digest_of(narrow)) nulls not distinct
  where outcome = 'pending';
--> statement-breakpoint
create function prompt_is_answered_once() returns trigger language plpgsql as $$
begin
  -- I16
  if old.outcome <> 'pending' then
    raise exception 'prompt_is_answered_once' using errcode = 'check_violation';
  end if;
  if (new.request_id, new.session_id, new.permission_id, new.resource, new.narrow, new.asked_reason) is distinct from
     (old.request_id, old.session_id, old.permission_id, old.resource, old.narrow, old.asked_reason) then
    raise exception 'answered_is_what_was_asked' using errcode = 'check_violation';
  end if;
  return new;
end $$;
--> statement-breakpoint
create trigger prompt_is_answered_once before update on request_item
  for each row execute function prompt_is_answered_once();
--> statement-breakpoint
-- Live access only: a row exists or it does not. What was held before is in activity.
create table access_grant (
  id text primary key,
  tenant_id text not null,
  session_id text not null,
  session_status text not null default 'active' constraint grant_lives_on_an_active_session check (session_status = 'active'),
  permission_id text not null,
  permission_delegable boolean not null default true constraint never_delegable_is_never_granted check (permission_delegable),
  resource text,
  narrow jsonb,
  read_only boolean not null default false,
  source text not null check (source in ('user', 'rule', 'mode', 'inherited')),
  sensitive boolean not null,
  rule_id text,
  request_id text,
  inherited_from text,
  parent_session_id text,
  created_at timestamptz(3) not null,
  uses integer not null default 0,
  last_used_at timestamptz(3),
  -- I5: a session that holds anything cannot end, and one that ended cannot hold.
  constraint no_grant_outlives_its_session foreign key (session_id, session_status) references session (id, status),
  constraint grant_is_of_its_sessions_tenant foreign key (tenant_id, session_id) references session (tenant_id, id),
  constraint never_delegable_stays_never_granted foreign key (permission_id, permission_delegable) references permission (id, delegable),
  -- I8
  constraint sensitive_is_granted_only_by_the_users_answer check (not sensitive or source = 'user'),
  constraint rule_grants_name_their_rule check ((source = 'rule') = (rule_id is not null)),
  constraint user_grants_name_their_request check (source <> 'user' or request_id is not null),
  constraint inherited_names_its_origin check ((source = 'inherited') = (inherited_from is not null)
    and (source = 'inherited') = (parent_session_id is not null)),
  constraint grant_is_of_its_sessions_request foreign key (request_id, session_id) references access_request (id, session_id),
  -- I9, I17: only from the parent itself, so never across users or tenants.
  constraint inherited_is_from_the_sessions_parent foreign key (session_id, parent_session_id) references session (id, parent_id),
  unique (id, session_id, permission_id)
);
--> statement-breakpoint
-- I9: an inherited grant is of the parent's same permission, and the parent's cannot go before it.
alter table access_grant add constraint inherited_follows_the_parents
  foreign key (inherited_from, parent_session_id, permission_id) references access_grant (id, session_id, permission_id);
--> statement-breakpoint
create function grant_is_what_may_be_given() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' then
    if (to_jsonb(new) - 'uses' - 'last_used_at') is distinct from (to_jsonb(old) - 'uses' - 'last_used_at') then
      raise exception 'grant_is_what_was_given' using errcode = 'check_violation', constraint = 'grant_is_what_was_given';
    end if;
    return new;
  end if;
  -- I8: whatever the row says of itself, the catalog's mark counts.
  if new.source <> 'user' and (select sensitive from permission where id = new.permission_id) then
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
--> statement-breakpoint
create trigger grant_is_what_may_be_given before insert or update on access_grant
  for each row execute function grant_is_what_may_be_given();
--> statement-breakpoint
create unique index an_item_is_held_once on access_grant (session_id, permission_id, resource, digest_of(narrow)) nulls not distinct;
--> statement-breakpoint
create index access_grant_by_origin on access_grant (inherited_from) where inherited_from is not null;
--> statement-breakpoint
create index access_grant_by_permission on access_grant (permission_id);
--> statement-breakpoint

-- The record.

create table tenant_chain (
  tenant_id text primary key references tenant (id),
  seq integer not null default 0,
  hash text not null default ''
);
--> statement-breakpoint
create table activity (
  n bigint generated always as identity primary key,
  id text not null unique,
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
  -- Not part of the record: orders readers by commit, so that a late one is not skipped.
  xid xid8 not null default pg_current_xact_id(),
  constraint chain_does_not_fork unique (chain, seq),
  constraint session_records_are_on_their_sessions_chain check (chain = coalesce(session_id, tenant_id)),
  -- I12
  constraint session_record_names_agent_user_and_session check
    (session_id is null or (agent_id is not null and user_id is not null and root_session_id is not null))
);
--> statement-breakpoint
create index activity_by_time on activity (tenant_id, n desc);
--> statement-breakpoint
create index activity_by_session on activity (tenant_id, session_id, n desc);
--> statement-breakpoint
create index activity_by_root on activity (tenant_id, root_session_id, n desc);
--> statement-breakpoint
create index activity_by_user on activity (tenant_id, user_id, n desc);
--> statement-breakpoint
create index activity_by_agent on activity (tenant_id, agent_id, n desc);
--> statement-breakpoint
create index activity_by_type on activity (tenant_id, type, n desc);
--> statement-breakpoint
create index activity_by_at on activity using brin (at);
--> statement-breakpoint
-- People's live events are the record itself, read in commit order up to the snapshot's horizon.
create index activity_of_a_user_in_commit_order on activity (tenant_id, user_id, xid, n);
--> statement-breakpoint
create function activity_is_append_only() returns trigger language plpgsql as $$
begin
  raise exception 'activity_is_append_only' using errcode = 'check_violation';
end $$;
--> statement-breakpoint
create trigger activity_is_append_only before update or delete on activity
  for each row execute function activity_is_append_only();
--> statement-breakpoint
create trigger activity_is_not_truncated before truncate on activity
  for each statement execute function activity_is_append_only();
--> statement-breakpoint
create table activity_checkpoint (
  n integer primary key,
  at timestamptz(3) not null,
  prev_hash text not null,
  heads jsonb not null,
  root text not null,
  public_jwk jsonb not null,
  jws text not null,
  upto bigint not null
);
--> statement-breakpoint
create trigger checkpoint_is_append_only before update or delete on activity_checkpoint
  for each row execute function activity_is_append_only();
--> statement-breakpoint
create trigger checkpoint_is_not_truncated before truncate on activity_checkpoint
  for each statement execute function activity_is_append_only();
--> statement-breakpoint
-- What others must hear of: written in the transaction of the change, read in an order that skips no late commit
-- (by xid up to the snapshot's horizon, never by sequence alone).
create table feed (
  id bigint generated always as identity primary key,
  xid xid8 not null default pg_current_xact_id(),
  tenant_id text not null,
  user_id text,
  topic text not null,
  data jsonb not null,
  at timestamptz(3) not null
);
--> statement-breakpoint
-- Below it every transaction of this database is over, so what reads in the order of xid up to it skips no late commit.
-- A snapshot's own xmin would do, but it is the whole server's: a transaction left open in another database would hold
-- revocation back for as long. A transaction that is not known to be another database's counts as ours.
create function settled_before() returns xid8 language sql stable as $$
  select coalesce(min(x), pg_snapshot_xmax(pg_current_snapshot()))
  from pg_snapshot_xip(pg_current_snapshot()) as x
  where not exists (
    select from pg_stat_activity a where a.backend_xid = x::xid and a.datname <> current_database())
$$;
--> statement-breakpoint
create index feed_in_commit_order on feed (xid, id);
--> statement-breakpoint
create index feed_of_a_user on feed (tenant_id, user_id, xid, id);
--> statement-breakpoint
create index feed_by_age on feed (at);
--> statement-breakpoint
-- How far each background job has read the feed.
create table feed_cursor (
  job text primary key,
  xid xid8 not null,
  id bigint not null
);
--> statement-breakpoint
create table idempotency_key (
  tenant_id text not null,
  caller text not null,
  route text not null,
  key text not null,
  body_hash text not null,
  response jsonb,
  created_at timestamptz(3) not null,
  primary key (tenant_id, caller, route, key)
);
--> statement-breakpoint
create index idempotency_key_by_age on idempotency_key (created_at);
--> statement-breakpoint
-- Counted, not chained: what nobody authenticated for, and call records that were lost (I12).
create table counter (
  tenant_id text not null,
  name text not null,
  day date not null,
  count bigint not null default 0,
  primary key (tenant_id, name, day)
);
--> statement-breakpoint
-- A person's signed-in browser: the cookie holds a secret, here is its hash. One tenant each.
create table browser_session (
  id_hash text primary key,
  tenant_id text not null,
  user_id text not null,
  client_id text not null,
  provider_id text not null references identity_provider (id),
  -- Only to tell the identity provider who signs out.
  id_token text not null,
  created_at timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  constraint browser_session_is_of_a_user foreign key (tenant_id, user_id) references app_user (tenant_id, id) on delete cascade
);
--> statement-breakpoint
create index browser_session_by_expiry on browser_session (expires_at);
--> statement-breakpoint
-- A sign-in under way: used once, and only by the browser that began it.
create table sign_in (
  state_hash text primary key,
  tenant_id text not null references tenant (id),
  browser_hash text not null,
  provider_id text not null references identity_provider (id),
  code_verifier text not null,
  nonce text not null,
  return_to text not null,
  expires_at timestamptz(3) not null
);
--> statement-breakpoint
create index sign_in_by_expiry on sign_in (expires_at);
--> statement-breakpoint
-- What an installation made for itself, shared by its instances: the demo world's random secrets.
create table installation (
  name text primary key,
  value jsonb not null
);
