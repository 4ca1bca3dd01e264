-- Why the job needs what is in a ceiling, in its builders' words: [{"item": …, "why": …}]. Apart from the ceiling, which decides.
alter table template_version add column justifications jsonb not null default '[]';
--> statement-breakpoint
-- What is said of one item of a version's ceiling; null: of all of it.
alter table template_comment add column item jsonb;
