import type { ArgsDef } from 'citty'

/** The options of `lend catalog`. Apart from what it does, which takes a second to load. */
export const CATALOG_ARGS = {
  action: { type: 'positional', description: 'check, diff, publish or import' },
  file: { type: 'positional', required: false, description: 'A permissions.json' },
  url: {
    type: 'string',
    description:
      'Where Lend is, as in https://lend.example or …/t/studio; left out: LEND_URL, or http://localhost:4000',
  },
  tenant: { type: 'string', description: 'Slug of the operator’s tenant; studio by default' },
  service: { type: 'string', description: 'Which service publishes, as in accounts' },
  'client-id': {
    type: 'string',
    description:
      'The service’s client. Its secret is read from LEND_CLIENT_SECRET, or the file of its private JSON Web Key from LEND_CLIENT_KEY',
  },
  'base-version': { type: 'string', description: 'Publish only if this is still the latest' },
  openapi: { type: 'string', description: 'For import: an OpenAPI document in JSON' },
  mcp: {
    type: 'string',
    description:
      'For import: the URL of an MCP server, asked now, or a file with its answer to tools/list. What the server wants in Authorization is read from LEND_MCP_AUTHORIZATION',
  },
  'private-network': {
    type: 'boolean',
    description: 'The MCP server is reached inside a private network, or by plain http',
  },
} as const satisfies ArgsDef
