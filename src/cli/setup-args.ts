import type { ArgsDef } from 'citty'

/** The options of `lend setup`. Apart from what it does, which takes a second to load. */
export const SETUP_ARGS = {
  tenant: { type: 'string', description: 'Slug of the new tenant, as in acme' },
  name: { type: 'string', description: 'Its name, as people write it' },
  issuer: { type: 'string', description: 'Issuer URL of its OpenID Connect provider' },
  audience: { type: 'string', description: 'What that provider calls this tenant as an API' },
  'first-party-client': {
    type: 'string',
    description: 'Client id of an app that acts for people: the web app, the CLI. May be repeated',
  },
  'web-client-id': {
    type: 'string',
    description:
      'The first-party client with which people sign in to the web page; its redirect URI is {PUBLIC_URL}/t/{tenant}/auth/callback',
  },
  'web-client-secret': {
    type: 'string',
    description: 'Its secret. Others on this machine can see options: prefer --file',
  },
  'admin-subject': { type: 'string', description: 'Subject of the first admin at that provider' },
  'admin-login': { type: 'string', description: 'Login of the first admin' },
  'admin-name': { type: 'string', description: 'Name of the first admin; the login if left out' },
  'admin-email': { type: 'string', description: 'E-mail of the first admin' },
  'creates-users': { type: 'boolean', description: 'Whoever signs in there becomes a user' },
  'private-network': {
    type: 'boolean',
    description: 'The provider is reached inside a private network, or by plain http',
  },
  operator: {
    type: 'boolean',
    description: 'This tenant runs the catalog: services publish in it. One tenant a deployment',
  },
  proxy: {
    type: 'string',
    description: 'Name of its first reverse proxy; on a tenant that is there it is added',
  },
  'proxy-family': { type: 'string', description: 'nginx, traefik, caddy or envoy' },
  mount: {
    type: 'string',
    description:
      'What that proxy exposes, as in /accounts=accounts: below which path, and which service of the catalog. May be repeated',
  },
  file: { type: 'string', description: 'A JSON file with all of this instead of options' },
} as const satisfies ArgsDef
