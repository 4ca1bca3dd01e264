import type { ArgsDef } from 'citty'

/** Options of `lend conformance`. */
export const CONFORMANCE_ARGS = {
  url: { type: 'string', description: 'An address of the resource server that a good token opens' },
  token: {
    type: 'string',
    description: 'A token that it accepts; left out: LEND_CONFORMANCE_TOKEN of the environment',
  },
  method: { type: 'string', default: 'GET', description: 'How to call it' },
  issuer: { type: 'string', description: 'The token’s issuer; left out: what the token says' },
  hostile: {
    type: 'string',
    description:
      'NAME=TOKEN: a signed token that it must refuse, as of another audience, another tenant, an ended session. May be repeated',
  },
} as const satisfies ArgsDef
