import type { TenantRef, UserCaller } from '../callers.ts'
import { Journal } from '../db/activity.ts'
import { hotRead, withTx } from '../db/tx.ts'
import {
  findOrCreateUser,
  findUser,
  type KnownUser,
  type Person,
  providersAndUser,
} from '../db/users.ts'
import { fail, ok, type Result } from '../fault.ts'
import type { Ctx } from '../ports.ts'
import type { Trusts } from '../tokens/client-auth.ts'
import { namedIn, type UserTokenVerifier, type VerifiedUserToken } from './login.ts'

const personOf = (token: VerifiedUserToken): Person => ({
  issuer: token.issuer,
  subject: token.subject,
  createsUsers: token.provider.createsUsers,
  ...token.profile,
})

/** A provider's keys may have to be fetched meanwhile: what was read of a person before that is not of now. */
const FRESH_MILLIS = 100

type Known = {
  readonly token: VerifiedUserToken
  readonly person: Person
  readonly user: KnownUser | null
}

/** The user is looked up by the name that the token claims, in one statement with the providers that can vouch for it. */
async function verified(
  ctx: Ctx,
  verifier: UserTokenVerifier,
  tenant: TenantRef,
  token: string,
): Promise<Result<Known>> {
  const started = performance.now()
  const named = namedIn(token)
  const read = await hotRead(ctx.db, 'load_person', (tx) => providersAndUser(tx, tenant.id, named))
  const checked = await verifier.verify(token, read.providers)
  if (!checked.ok) return checked
  const person = personOf(checked.value)
  const same = named !== null && named.issuer === person.issuer && named.subject === person.subject
  const user =
    same && performance.now() - started <= FRESH_MILLIS
      ? read.user
      : await hotRead(ctx.db, 'load_user', (tx) => findUser(tx, tenant, person))
  return ok({ token: checked.value, person, user })
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
    const { token: checked, person, user: known } = read.value
    const { provider, clientId } = checked
    if (clientId === null || !provider.firstPartyClients.includes(clientId))
      return fail('not_first_party')
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
