-- The template studio (SPEC section 3): drafts that several builders edit, review, and who answers for what was published.
alter table template add constraint template_is_of_its_tenant unique (tenant_id, id);
--> statement-breakpoint
alter table template_version
  add column tenant_id text,
  -- Raised by every change of a draft: who edits an older one is told, and loses nothing.
  add column revision integer not null default 1 check (revision > 0),
  add column base_version integer,
  add column updated_at timestamptz(3),
  add column submitted_at timestamptz(3),
  add column retired_at timestamptz(3),
  -- Who answers for it since `sponsor` cannot. Not one of the terms: those never change.
  add column current_sponsor text,
  alter column sponsor drop not null,
  add constraint submitted_names_its_sponsor check (status = 'draft' or sponsor is not null);
--> statement-breakpoint
alter table template_version disable trigger published_version_is_immutable;
--> statement-breakpoint
update template_version v set tenant_id = (select t.tenant_id from template t where t.id = v.template_id);
--> statement-breakpoint
alter table template_version enable trigger published_version_is_immutable;
--> statement-breakpoint
alter table template_version
  alter column tenant_id set not null,
  add constraint version_is_of_its_templates_tenant foreign key (tenant_id, template_id) references template (tenant_id, id);
--> statement-breakpoint
create function version_has_its_templates_tenant() returns trigger language plpgsql as $$
begin
  new.tenant_id := (select t.tenant_id from template t where t.id = new.template_id);
  return new;
end $$;
--> statement-breakpoint
create trigger version_has_its_templates_tenant before insert on template_version
  for each row execute function version_has_its_templates_tenant();
--> statement-breakpoint
create unique index one_open_version_a_template on template_version (template_id) where status in ('draft', 'in_review');
--> statement-breakpoint
-- All who edited a version are its authors.
create table template_author (
  tenant_id text not null,
  template_id text not null,
  version integer not null,
  user_id text not null,
  primary key (template_id, version, user_id),
  constraint author_is_of_the_templates_tenant foreign key (tenant_id, template_id) references template (tenant_id, id),
  constraint author_wrote_a_version_that_is foreign key (template_id, version) references template_version (template_id, version),
  constraint author_is_a_user_of_the_tenant foreign key (tenant_id, user_id) references app_user (tenant_id, id)
);
--> statement-breakpoint
create table template_comment (
  id text primary key,
  tenant_id text not null,
  template_id text not null,
  version integer not null,
  user_id text not null,
  kind text not null check (kind in ('comment', 'submitted', 'withdrawn', 'sent_back', 'approved')),
  body text not null,
  created_at timestamptz(3) not null,
  constraint comment_is_of_the_templates_tenant foreign key (tenant_id, template_id) references template (tenant_id, id),
  constraint comment_is_on_a_version_that_is foreign key (template_id, version) references template_version (template_id, version),
  constraint commenter_is_a_user_of_the_tenant foreign key (tenant_id, user_id) references app_user (tenant_id, id)
);
--> statement-breakpoint
create index template_comment_by_version on template_comment (template_id, version, created_at, id);
--> statement-breakpoint
-- What recorded requests of a template would get under another version.
create index session_by_template_and_time on session (template_id, created_at desc);
--> statement-breakpoint
create or replace function published_version_is_immutable() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' then
    if old.status in ('published', 'retired') then
      raise exception 'published_version_is_immutable' using errcode = 'check_violation';
    end if;
    return old;
  end if;
  if old.status in ('published', 'retired') and
     (to_jsonb(old) - 'status' - 'retired_at' - 'current_sponsor') is distinct from
     (to_jsonb(new) - 'status' - 'retired_at' - 'current_sponsor') then
    raise exception 'published_version_is_immutable' using errcode = 'check_violation';
  end if;
  if old.status in ('published', 'retired') and new.status not in (old.status, 'retired') then
    raise exception 'published_version_is_immutable' using errcode = 'check_violation';
  end if;
  -- Nothing is published that was not reviewed as it is, and not by any of those who wrote it.
  if new.status = 'published' and old.status <> 'published' then
    if old.status <> 'in_review' or new.revision <> old.revision then
      raise exception 'published_is_what_was_reviewed' using errcode = 'check_violation', constraint = 'published_is_what_was_reviewed';
    end if;
    if exists (select from template_author a where a.template_id = new.template_id and a.version = new.version
        and a.user_id = new.reviewer) then
      raise exception 'reviewer_is_not_any_author' using errcode = 'check_violation', constraint = 'reviewer_is_not_any_author';
    end if;
  end if;
  -- In review it stands still: its words change only when it is a draft.
  if old.status = 'in_review' and new.revision <> old.revision then
    raise exception 'in_review_stands_still' using errcode = 'check_violation', constraint = 'in_review_stands_still';
  end if;
  return new;
end $$;
