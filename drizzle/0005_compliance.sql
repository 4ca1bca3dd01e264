-- Compliance asks by time, by template and by permission over any number of records (SPEC section 11).

-- A session's records are its chain, so chain_does_not_fork finds them.
drop index activity_by_session;
--> statement-breakpoint
-- From a time to a place in the record: bounds are looked up, never walked to.
drop index activity_by_at;
--> statement-breakpoint
create index activity_by_at on activity (at);
--> statement-breakpoint
create index activity_by_template on activity (tenant_id, split_part(template, '@', 1), n desc) where template is not null;
--> statement-breakpoint
-- Which records name a permission, in the order of pages. An index over the record's JSON cannot give that order: a rare
-- permission would be looked for through all of the record, or a common one read whole and sorted.
create table activity_permission (
  tenant_id text not null,
  permission text not null,
  n bigint not null,
  primary key (tenant_id, permission, n)
);
--> statement-breakpoint
create function record_is_found_by_its_permissions() returns trigger language plpgsql as $$
begin
  insert into activity_permission (tenant_id, permission, n)
  select distinct new.tenant_id, p, new.n from jsonb_array_elements_text(
    jsonb_path_query_array(new.data, '$.permission') || jsonb_path_query_array(new.data, '$.items[*].permission')) as p;
  return null;
end $$;
--> statement-breakpoint
-- Starts and issues name none and pay nothing for it.
create trigger record_is_found_by_its_permissions after insert on activity for each row
  when (new.data ?| array['permission', 'items']) execute function record_is_found_by_its_permissions();
--> statement-breakpoint
insert into activity_permission (tenant_id, permission, n)
select distinct r.tenant_id, p, r.n from activity r, jsonb_array_elements_text(
  jsonb_path_query_array(r.data, '$.permission') || jsonb_path_query_array(r.data, '$.items[*].permission')) as p
where r.data ?| array['permission', 'items'];
--> statement-breakpoint
create index session_roots_by_time on session (tenant_id, created_at desc, id desc) where parent_id is null;
--> statement-breakpoint
create index access_request_by_time on access_request using brin (created_at);
--> statement-breakpoint
create index request_item_by_rule on request_item (rule_id, decided_at desc) where rule_id is not null;
