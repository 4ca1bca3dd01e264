-- Counts of the last minute, shared by instances (src/rates.ts): rows as the rate limiter's library keeps them, `expire` in
-- milliseconds. Unlogged: a crash forgets them, and a minute later they are as they would have been.
create unlogged table rate_count (
  key text primary key,
  points integer not null default 0,
  expire bigint
);
--> statement-breakpoint
create index rate_count_by_expire on rate_count (expire);
--> statement-breakpoint
-- What each instance last said of itself, for the one that tells of the whole (src/ops/alerts.ts).
create unlogged table instance_report (
  instance text primary key,
  at timestamptz not null,
  said jsonb not null
);
--> statement-breakpoint
-- What was last told of each state. A change is one update that names the change before it, so that of several instances one makes it.
create table alert_state (
  name text primary key,
  failing boolean not null,
  changes integer not null,
  changed_at timestamptz not null,
  told boolean not null default false,
  tries integer not null default 0,
  tried_at timestamptz,
  constraint alert_changes_count_up check (changes >= 1)
);
