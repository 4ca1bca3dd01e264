import type { TenantRef } from '../callers.ts'
import { assert } from '../core/assert.ts'
import type { TenantId, UserId } from '../core/vocabulary.ts'
import type { Provider } from '../identity/login.ts'
import type { Ctx } from '../ports.ts'
import type { Journal } from './activity.ts'
import { json, type Tx } from './tx.ts'

/** A person as a verified token of their identity provider names them: keyed by issuer and subject, never by e-mail. */
export type Person = {
  readonly issuer: string
  readonly subject: string
  /** Whether that provider may bring in people whom the tenant does not know yet. */
  readonly createsUsers: boolean
  readonly login?: string | undefined
  readonly name?: string | undefined
  readonly email?: string | undefined
}

export type KnownUser = {
  readonly id: UserId
  readonly login: string
  readonly name: string
  readonly status: 'active' | 'disabled'
  readonly staffRoles: readonly string[]
}

export async function findUser(
  tx: Tx,
  tenant: TenantRef,
  person: Pick<Person, 'issuer' | 'subject'>,
): Promise<KnownUser | null> {
  const [row] = await tx.sql<KnownUser>`
    select id, login, name, status, staff_roles as "staffRoles" from app_user
    where tenant_id = ${tenant.id} and issuer = ${person.issuer} and subject = ${person.subject}`
  return row ?? null
}

/** A person as a token names them that nobody has verified yet: good for looking rows up, never for trusting. */
export type Named = Pick<Person, 'issuer' | 'subject'>

/** The identity providers that a tenant trusts now, and the user of this name, in one statement. */
export async function providersAndUser(
  tx: Tx,
  tenantId: TenantId,
  named: Named | null,
): Promise<{ readonly providers: readonly Provider[]; readonly user: KnownUser | null }> {
  const [row] = await tx.sql<{ providers: Provider[]; user: KnownUser | null }>`
    select
      (select coalesce(json_agg(x), '[]') from (
        select id, issuer, audience, first_party_clients as "firstPartyClients",
          creates_users as "createsUsers", private_network as "privateNetwork"
        from identity_provider where tenant_id = ${tenantId} and status = 'active') x) as providers,
      (select row_to_json(x) from (
        select id, login, name, status, staff_roles as "staffRoles" from app_user
        where tenant_id = ${tenantId} and issuer = ${named?.issuer ?? null}::text
          and subject = ${named?.subject ?? null}::text) x) as user`
  assert(row, 'a statement without a from has one row')
  return row
}

/** Null when the tenant does not know the person and their provider does not create users. */
export async function findOrCreateUser(
  ctx: Ctx,
  tx: Tx,
  tenant: TenantRef,
  person: Person,
  journal: Journal,
): Promise<KnownUser | null> {
  const known = await findUser(tx, tenant, person)
  if (known !== null || !person.createsUsers) return known
  const id = ctx.ids.id<UserId>('user')
  // A login is only a label: when it is taken, the new person's is their id.
  for (const login of [person.login ?? id, id]) {
    // Two first tokens of one person may come at once, and so may two people of one login: any conflict inserts nothing.
    const [made] = await tx.sql<{ id: UserId }>`
      insert into app_user (id, tenant_id, issuer, subject, login, name, email, attributes, created_at)
      values (${id}, ${tenant.id}, ${person.issuer}, ${person.subject}, ${login},
        ${person.name ?? person.login ?? person.subject}, ${person.email ?? null},
        ${json({})}::text::jsonb, to_timestamp(${ctx.clock.now() / 1000}::float8))
      on conflict do nothing returning id`
    if (made !== undefined)
      journal.tenant(
        'admin.changed',
        { what: 'user.created', id, by: 'identity_provider' },
        { userId: id },
      )
    const there = await findUser(tx, tenant, person)
    if (there !== null) return there
  }
  return null
}
