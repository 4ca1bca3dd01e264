import type { UserCaller } from '../../callers.ts'
import {
  clientsOf,
  type IdentityProviderRow,
  insertIdentityProvider,
  selectIdentityProviders,
  updateIdentityProvider,
} from '../../db/admin-clients.ts'
import { FIRST } from '../../db/directory.ts'
import { guardTenantAlone } from '../../db/guard.ts'
import { type Kept, keeping } from '../../db/sealed.ts'
import type { Tx } from '../../db/tx.ts'
import { type FieldError, fail, ok, type Result } from '../../fault.ts'
import type { Ctx } from '../../ports.ts'
import { secondsNow } from '../live.ts'
import { badField, given, recordChange, taken } from './change.ts'
import { issuerProblem } from './urls.ts'

const noProvider = () =>
  fail('not_found', { detail: 'No such identity provider in this organisation.' })

/**
 * First-party clients open the People API, so no agent's app may be one (SPEC section 8, I6); and an audience that is some
 * client's id would make that client's ID tokens pass for access tokens.
 */
async function clientsFault(
  tx: Tx,
  caller: UserCaller,
  of: Pick<IdentityProviderRow, 'audience' | 'firstPartyClients'>,
): Promise<Result<true>> {
  const { apps } = await clientsOf(tx, caller.tenant.id)
  const errors: FieldError[] = of.firstPartyClients.flatMap((client, i) =>
    apps.includes(client)
      ? [{ path: `first_party_clients.${i}`, message: 'is the app of an agent' }]
      : [],
  )
  if (of.firstPartyClients.includes(of.audience) || apps.includes(of.audience))
    errors.push({ path: 'audience', message: 'is the id of a client: name this API instead' })
  return errors.length > 0 ? fail('unprocessable', { errors }) : ok(true)
}

type WebClient = Pick<IdentityProviderRow, 'webClientId' | 'hasWebClientSecret'>

/**
 * Lend's own client at a provider after a change: with its secret, or none at all. Another client has another secret, so
 * it is never kept for it. A member of the first-party clients, and so the app of no agent (I6).
 */
function webClientAfter(
  before: WebClient,
  asked: {
    readonly web_client_id?: string | null | undefined
    readonly web_client_secret?: string | undefined
  },
  firstPartyClients: readonly string[],
): Result<WebClient> {
  const { web_client_id: id = before.webClientId, web_client_secret: secret } = asked
  if (id === null)
    return secret === undefined
      ? ok({ webClientId: null, hasWebClientSecret: false })
      : badField('web_client_secret', 'is of no client: give web_client_id too')
  if (secret === undefined && (id !== before.webClientId || !before.hasWebClientSecret))
    return badField('web_client_secret', 'is needed with this web_client_id')
  if (!firstPartyClients.includes(id))
    return badField('web_client_id', 'must be one of first_party_clients')
  return ok({ webClientId: id, hasWebClientSecret: true })
}

const NO_WEB_CLIENT: WebClient = { webClientId: null, hasWebClientSecret: false }

/** For the record: that there is a secret, never which. */
const webClientChanges = (asked: {
  readonly web_client_id?: string | null | undefined
  readonly web_client_secret?: string | undefined
}) => ({
  web_client_id: asked.web_client_id,
  has_web_client_secret: asked.web_client_secret === undefined ? undefined : true,
})

/** The secret of a row's web client, as it is kept. Null: none is given. */
async function keptSecret(
  ctx: Ctx,
  tx: Tx,
  of: { readonly caller: UserCaller; readonly id: string; readonly secret: string | undefined },
): Promise<Result<Kept | null>> {
  if (of.secret === undefined) return ok(null)
  const keep = await keeping(tx, ctx.vault)
  if (keep === null)
    return badField(
      'web_client_secret',
      'cannot be kept: this instance lacks the LEND_SECRET_KEYS that the others seal with',
    )
  const row = { kind: 'identity_provider', tenantId: of.caller.tenant.id, id: of.id } as const
  return ok(keep(row, of.secret))
}

export type ProviderInput = {
  readonly issuer: string
  readonly audience: string
  readonly first_party_clients: readonly string[]
  readonly creates_users?: boolean | undefined
  readonly private_network?: boolean | undefined
  readonly web_client_id?: string | undefined
  readonly web_client_secret?: string | undefined
}

const OPERATORS_ONLY = 'can be set only by who runs this deployment, with: npx lend setup'

/**
 * A tenant's administrator must not make the server fetch from the network it stands in (SSRF); on a loopback deployment
 * there is nobody else.
 */
const mayBePrivate = (ctx: Pick<Ctx, 'publicUrl'>): boolean =>
  ['localhost', '127.0.0.1', '[::1]'].includes(new URL(ctx.publicUrl).hostname)

/** Trusts an identity provider to say who people are. Its address is not asked here: nothing is fetched. */
export async function createIdentityProvider(
  ctx: Ctx,
  caller: UserCaller,
  input: ProviderInput,
  tx: Tx,
): Promise<Result<IdentityProviderRow>> {
  await guardTenantAlone(tx, caller.tenant.id)
  const privateNetwork = input.private_network ?? false
  if (privateNetwork && !mayBePrivate(ctx)) return badField('private_network', OPERATORS_ONLY)
  const problem = issuerProblem(input.issuer, { privateNetwork, publicUrl: ctx.publicUrl })
  if (problem !== null) return badField('issuer', problem)
  const firstPartyClients = [...new Set(input.first_party_clients)]
  const web = webClientAfter(NO_WEB_CLIENT, input, firstPartyClients)
  if (!web.ok) return web
  const row: IdentityProviderRow = {
    id: ctx.ids.id('identityProvider'),
    issuer: input.issuer,
    audience: input.audience,
    firstPartyClients,
    ...web.value,
    createsUsers: input.creates_users ?? false,
    privateNetwork,
    status: 'active',
    createdAt: secondsNow(ctx.clock),
  }
  const apart = await clientsFault(tx, caller, row)
  if (!apart.ok) return apart
  const of = { caller, id: row.id, secret: input.web_client_secret }
  const kept = await keptSecret(ctx, tx, of)
  if (!kept.ok) return kept
  if (!(await insertIdentityProvider(tx, caller.tenant.id, row, kept.value))) return taken('issuer')
  await recordChange(ctx, tx, caller, {
    what: 'identity_provider.created',
    id: row.id,
    changes: given({
      issuer: row.issuer,
      audience: row.audience,
      first_party_clients: row.firstPartyClients,
      creates_users: row.createsUsers,
      private_network: row.privateNetwork,
      ...webClientChanges(input),
    }),
  })
  return ok(row)
}

export type ProviderPatch = {
  readonly audience?: string | undefined
  readonly first_party_clients?: readonly string[] | undefined
  readonly creates_users?: boolean | undefined
  readonly private_network?: boolean | undefined
  readonly web_client_id?: string | null | undefined
  readonly web_client_secret?: string | undefined
  readonly status?: 'active' | 'disabled' | undefined
}

/** Changes how a provider is trusted. Its issuer stays: people are keyed by it. */
export async function changeIdentityProvider(
  ctx: Ctx,
  caller: UserCaller,
  id: string,
  patch: ProviderPatch,
  tx: Tx,
): Promise<Result<IdentityProviderRow>> {
  const tenantId = caller.tenant.id
  await guardTenantAlone(tx, tenantId)
  const [before] = await selectIdentityProviders(tx, { tenantId, id, after: FIRST, limit: 1 })
  if (before === undefined) return noProvider()
  const firstPartyClients = [...new Set(patch.first_party_clients ?? before.firstPartyClients)]
  const web = webClientAfter(before, patch, firstPartyClients)
  if (!web.ok) return web
  const after: IdentityProviderRow = {
    ...before,
    ...web.value,
    audience: patch.audience ?? before.audience,
    firstPartyClients,
    createsUsers: patch.creates_users ?? before.createsUsers,
    privateNetwork: patch.private_network ?? before.privateNetwork,
    status: patch.status ?? before.status,
  }
  const { privateNetwork } = after
  if (privateNetwork && !before.privateNetwork && !mayBePrivate(ctx))
    return badField('private_network', OPERATORS_ONLY)
  const problem = issuerProblem(before.issuer, { privateNetwork, publicUrl: ctx.publicUrl })
  if (problem !== null) return badField('private_network', `its issuer ${problem}`)
  const apart = await clientsFault(tx, caller, after)
  if (!apart.ok) return apart
  const { web_client_secret: secret, ...recorded } = patch
  const kept = await keptSecret(ctx, tx, { caller, id, secret })
  if (!kept.ok) return kept
  await updateIdentityProvider(tx, tenantId, after, kept.value)
  await recordChange(ctx, tx, caller, {
    what: 'identity_provider.changed',
    id,
    changes: given({ ...recorded, ...webClientChanges(patch) }),
  })
  return ok(after)
}
