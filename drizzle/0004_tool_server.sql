-- An MCP server behind the tool gateway (SPEC section 9). Its credential is sealed with a key that is not in the database.
create table tool_server (
  id text primary key,
  tenant_id text not null references tenant (id),
  -- Also the service whose permissions govern its tools, as in `mail` of `mail/send_email`.
  name text not null references service (id)
    constraint tool_server_name_is_a_path_segment check (name ~ '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$'),
  title text not null,
  url text not null,
  credential_header text not null default 'authorization',
  sealed_credential text
    constraint tool_server_credential_is_sealed check (sealed_credential ~ '^v1\.[^.]+\.[^.]+\.[^.]+$'),
  private_network boolean not null default false,
  status text not null default 'active' check (status in ('active', 'disabled')),
  created_at timestamptz(3) not null,
  constraint tool_server_name_is_unique_in_its_tenant unique (tenant_id, name)
);
