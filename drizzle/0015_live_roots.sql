-- A start counts the live roots of one agent for one person. Of several partial indexes over live sessions Postgres picks one by
-- what it knows of their sizes, and while none is live they all look alike; this one alone fits the question.
create index session_live_roots on session (user_id, agent_id) where ended_at is null and parent_id is null;
--> statement-breakpoint
-- Nothing refers to it.
alter table session drop constraint session_id_user_id_key;
--> statement-breakpoint
-- Every record moves its session's head: with room on the page, no index is touched.
alter table session set (fillfactor = 80);
