-- A proxy made by an admin asks through one header family, and only through that one; those from before may use each.
alter table gateway_proxy add column family text constraint proxy_family_is_known
  check (family in ('nginx', 'traefik', 'caddy', 'envoy'));
--> statement-breakpoint
alter table gateway_proxy add column status text not null default 'active' constraint proxy_status_is_known
  check (status in ('active', 'disabled'));
--> statement-breakpoint
-- A secret that was replaced still opens until its stated end, so that a proxy can be moved to the new one without a gap.
alter table gateway_proxy
  add column previous_secret_hash text constraint proxy_previous_secret_is_kept_as_sha256
    check (previous_secret_hash ~ '^[0-9a-f]{64}$'),
  add column previous_secret_until timestamptz(3),
  add constraint proxy_previous_secret_has_an_end
    check ((previous_secret_hash is null) = (previous_secret_until is null)),
  add constraint proxy_previous_secret_is_another check (previous_secret_hash <> secret_hash);
--> statement-breakpoint
-- A name for a mount that can stand in an address, which its prefix cannot.
alter table gateway_mount
  add column id text not null default 'mnt_' || replace(gen_random_uuid()::text, '-', ''),
  add column created_at timestamptz(3) not null default now(),
  add constraint mount_id_names_one_mount unique (id);
--> statement-breakpoint
alter table enforcement_point add column status text not null default 'active'
  constraint enforcement_point_status_is_known check (status in ('active', 'disabled'));
--> statement-breakpoint
alter table enforcement_point
  add column previous_secret_hash text constraint enforcement_point_previous_secret_is_kept_as_sha256
    check (previous_secret_hash ~ '^[0-9a-f]{64}$'),
  add column previous_secret_until timestamptz(3),
  add constraint enforcement_point_previous_secret_has_an_end
    check ((previous_secret_hash is null) = (previous_secret_until is null)),
  add constraint enforcement_point_previous_secret_is_another check (previous_secret_hash <> secret_hash);
