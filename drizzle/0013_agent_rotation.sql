-- An agent's secret that was replaced still opens until its stated end, as an enforcement point's does: its app moves to the new
-- one without a refused request. Instances of the version before know only the new one.
alter table agent
  add column previous_secret_hash text,
  add column previous_secret_until timestamptz(3),
  add constraint agent_previous_secret_has_an_end
    check ((previous_secret_hash is null) = (previous_secret_until is null)),
  add constraint agent_previous_secret_is_another check (previous_secret_hash <> secret_hash);
