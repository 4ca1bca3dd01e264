-- A template that allows more now than when this person last agreed to it: their allow rules for it wait (SPEC section 3).
create table template_change (
  tenant_id text not null,
  user_id text not null,
  template_id text not null,
  -- What they knew: the version, and its terms as their tenant ran it.
  from_version integer not null,
  from_terms jsonb not null,
  created_at timestamptz(3) not null,
  primary key (user_id, template_id),
  constraint change_is_told_to_a_user_of_the_tenant foreign key (tenant_id, user_id) references app_user (tenant_id, id) on delete cascade,
  constraint change_is_from_a_version_that_was foreign key (template_id, from_version) references template_version (template_id, version)
);
--> statement-breakpoint
-- Who has to be asked again when a version is adopted, and what waits for one person.
create index rule_by_template on consent_rule (tenant_id, template_id) where effect = 'allow';
