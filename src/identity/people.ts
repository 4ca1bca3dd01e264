import type { TenantRef, UserCaller } from '../callers.ts'
import { Journal } from '../db/activity.ts'
import { activeProviders } from '../db/tenants.ts'
import { withRead, withTx } from '../db/tx.ts'
import { findOrCreateUser, findUser, type Person } from '../db/users.ts'
import { fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import type { Trusts } from '../tokens/client-auth.ts'
import type { UserTokenVerifier, VerifiedUserToken } from './login.ts'

const personOf = (token: VerifiedUserToken): Person => ({
  issuer: token.issuer,
  subject: token.subject,
  createsUsers: token.provider.createsUsers,
  ...token.profile,
})

async function verified(
  ctx: Ctx,
  verifier: UserTokenVerifier,
  tenant: TenantRef,
  token: string,
): Promise<Result<VerifiedUserToken>> {
  const providers = await withRead(ctx.db, 'load_providers', (tx) => activeProviders(tx, tenant.id))
  return verifier.verify(token, providers)
}

/**
 * The person behind a bearer token at the People API (SPEC section 8, I6): only through one of the tenant's first-party
 * clients, so an agent's app, which holds its user's token for exchange, cannot approve itself.
 */
export const userCallerFrom =
  (ctx: Ctx, verifier: UserTokenVerifier) =>
  async (token: string, tenant: TenantRef): Promise<Result<UserCaller>> => {
    const read = await verified(ctx, verifier, tenant, token)
    if (!read.ok) return read.fault.code === 'provider_unavailable' ? read : fail('unauthenticated')
    const { provider, clientId } = read.value
    if (clientId === null || !provider.firstPartyClients.includes(clientId))
      return fail('not_first_party')
    const person = personOf(read.value)
    const known = await withRead(ctx.db, 'load_user', (tx) => findUser(tx, tenant, person))
    const mayCreate = known === null && person.createsUsers
    const user = !mayCreate
      ? known
      : await withTx(ctx.db, 'create_user', async (tx) => {
          const journal = new Journal(ctx, tenant.id)
          const created = await findOrCreateUser(ctx, tx, tenant, person, journal)
          await journal.write(tx)
          return created
        })
    if (user === null) return fail('user_unknown')
    if (user.status !== 'active') return fail('user_disabled')
    return ok({
      as: 'user',
      tenant,
      userId: user.id,
      login: user.login,
      name: user.name,
      staffRoles: user.staffRoles,
      clientId,
    })
  }

/**
 * The person whose token an agent's app presents for exchange (SPEC section 6.1): the token must have been issued to, or
 * name in `may_act`, a client that this agent is registered with (USER-ASKS 6).
 */
export const subjectFrom =
  (verifier: UserTokenVerifier) =>
  async (trusts: Trusts, token: string): Promise<Result<Person>> => {
    const read = await verifier.verify(token, trusts.providers)
    if (!read.ok) return read
    const { clientId, mayAct } = read.value
    const named = [clientId, mayAct].some(
      (client) => client !== null && trusts.appClients.includes(client),
    )
    return named ? ok(personOf(read.value)) : fail('subject_token_not_for_this_agent')
  }
