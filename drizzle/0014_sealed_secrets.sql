-- Private signing keys and secrets of web clients are sealed with a key that is kept outside the database. Each value lies in one of
-- two columns. What is in clear stays so until the last instance of a version that knows only the clear one has ended: see lend reseal.
alter table signing_key
  alter column private_jwk drop not null,
  add column sealed_private_jwk text,
  add constraint private_key_is_kept_once check (num_nonnulls(private_jwk, sealed_private_jwk) = 1);
--> statement-breakpoint
alter table identity_provider
  add column sealed_web_client_secret text,
  add constraint web_client_secret_is_kept_once check (num_nonnulls(web_client_secret, sealed_web_client_secret) <= 1);
--> statement-breakpoint
-- A service's client moves to its new secret without a refused publish, as agents and enforcement points do.
alter table service_client
  add column previous_secret_hash text constraint service_previous_secret_is_kept_as_sha256
    check (previous_secret_hash ~ '^[0-9a-f]{64}$'),
  add column previous_secret_until timestamptz(3),
  add constraint service_previous_secret_has_an_end
    check ((previous_secret_hash is null) = (previous_secret_until is null)),
  add constraint service_previous_secret_is_another check (previous_secret_hash <> secret_hash);
