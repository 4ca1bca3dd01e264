import type { ServiceRow } from '../../db/registry.ts'
import { iso } from '../../db/view-sessions.ts'

/** A service as it is read. Its secret's hash never leaves the database. `now` in milliseconds. */
export const serviceView = (now: number) => (s: ServiceRow) => ({
  id: s.id,
  title: s.title,
  ...(s.version === null ? {} : { version: s.version }),
  permissions: s.permissions,
  endpoints: s.endpoints,
  ...(s.openProposal === null ? {} : { open_proposal: s.openProposal }),
  ...(s.clientId === null ? {} : { client_id: s.clientId }),
  ...(s.status === null ? {} : { status: s.status }),
  has_secret: s.hasSecret,
  ...(s.previousUntil === null || s.previousUntil <= now / 1000
    ? {}
    : { previous_secret_until: iso(s.previousUntil) }),
  ...(s.jwks === null ? {} : { jwks: s.jwks }),
})
