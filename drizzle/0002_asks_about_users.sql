-- Asking what a person themselves may do is a privilege of its own: an enforcement point that holds only an agent's token has no
-- need of it, and with it the person's whole access stands in for what the session holds (SPEC section 9).
alter table enforcement_point add column asks_about_users boolean not null default false;
