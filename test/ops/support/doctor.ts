/** As little as the doctor needs to look at. */
export const TENANTS = `
  insert into tenant (id, slug, name, created_at) values ('ten_a', 'acme', 'Acme', now())`

/** A tool server of it with a sealed credential. */
export const secretText = (sealed: string): string => `
  insert into service (id, title) values ('mail', 'Mail');
  insert into tool_server (id, tenant_id, name, title, url, sealed_credential, created_at)
  values ('tsv_1', 'ten_a', 'mail', 'Mail', 'https://mail.example/mcp', '${sealed}', now())`
