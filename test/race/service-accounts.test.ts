import { expect, test } from 'vitest'
import type { ServiceAccountCaller } from '../../src/callers.ts'
import type { ServiceClaims } from '../../src/core/service-claims.ts'
import type { ServiceAccountId } from '../../src/core/vocabulary.ts'
import {
  changeServiceAccount,
  createServiceAccount,
  giveServicePermission,
  type ServiceAccountPatch,
  takeServicePermission,
} from '../../src/flows/admin/service-accounts.ts'
import { introspectService, issueServiceToken } from '../../src/flows/service-tokens.ts'
import type { Ctx } from '../../src/ports.ts'
import type { Run } from '../support/databases.ts'
import {
  ACME,
  both,
  codeOf,
  inOrder,
  inTx,
  must,
  person,
  twoInstances,
} from './support/instances.ts'

const RESOURCE = 'https://accounts.acme.example'
const ADAM = person('adam')
/** What every issue holds shared and every change alone: whoever is queued behind it comes in its turn. */
const GUARD = `select pg_advisory_xact_lock(hashtextextended('lend:${ACME.id}', 0))`
const ROTATED = { rotate_secret: { overlap_seconds: 0 } } as const

let made = 0

/** An account that holds one permission, with the caller that its credential makes of it now. */
async function account(ctx: Ctx, run: Run) {
  await run(
    `insert into resource_server (id, tenant_id, resource, name, subject, services, created_at)
     values ('rsv_race', $1, $2, 'Accounts', 'session', array['accounts'], now()) on conflict do nothing`,
    [ACME.id, RESOURCE],
  )
  const { account: row } = must(
    await inTx(ctx, (tx) => createServiceAccount(ctx, ADAM, { name: `nightly ${made++}` }, tx)),
  )
  const of = { accountId: row.id, permission: 'accounts:read' }
  const given = must(await inTx(ctx, (tx) => giveServicePermission(ctx, ADAM, of, tx)))
  const caller: ServiceAccountCaller = {
    as: 'service_account',
    tenant: ACME,
    serviceAccountId: row.id as ServiceAccountId,
    version: await versionOf(run, row.id),
  }
  return { id: row.id, caller, permission: given.id }
}

async function versionOf(run: Run, id: string): Promise<number> {
  const [row] = await run<{ version: number }>(
    'select version from service_account where id = $1',
    [id],
  )
  return row?.version ?? 0
}

const change = (ctx: Ctx, id: string, patch: ServiceAccountPatch) =>
  inTx(ctx, (tx) => changeServiceAccount(ctx, ADAM, id, patch, tx))

const issue = (ctx: Ctx, caller: ServiceAccountCaller) => issueServiceToken(ctx, caller, RESOURCE)

const isActive = async (ctx: Ctx, claims: ServiceClaims): Promise<boolean> => {
  const point = { as: 'enforcement', tenant: ACME, id: 'epc_1', services: ['accounts'] } as const
  return (await introspectService(ctx, point, claims)).active
}

/** What is on record of its tokens and its changes, in order. */
const recordsOf = (run: Run, id: string) =>
  run<{ type: string }>(
    `select type from activity where data ->> 'service_account' = $1 or
       (data ->> 'id' = $1 and data ->> 'what' = 'service_account.changed') order by n`,
    [id],
  )

twoInstances('a service account’s token while its account changes', (pair) => {
  test.each([
    ['a disabling', { status: 'disabled' }, 'service_account_disabled'],
    ['a rotation', ROTATED, 'client_unauthenticated'],
  ] as const)('one that waits behind %s is not issued', async (_, patch, code) => {
    const { a, b, run } = pair()
    const { id, caller } = await account(a, run)
    const codes = await inOrder(pair(), GUARD, [
      async () => codeOf(await change(b, id, patch)),
      async () => codeOf(await issue(a, caller)),
    ])
    expect(codes).toEqual(['ok', code])
    expect((await recordsOf(run, id)).map((r) => r.type)).toEqual([
      'admin.changed',
      'token.refused',
    ])
  })

  test.each([
    ['a disabling', { status: 'disabled' }],
    ['a rotation', ROTATED],
  ] as const)(
    'one that %s waits behind is issued, and dead once that is answered',
    async (_, patch) => {
      const { a, b, run } = pair()
      const { id, caller } = await account(a, run)
      const [issued, changed] = await inOrder<string | ServiceClaims>(pair(), GUARD, [
        async () => must(await issue(a, caller)),
        async () => codeOf(await change(b, id, patch)),
      ])
      expect(changed).toBe('ok')
      if (typeof issued !== 'object') throw new Error('no token was issued')
      expect(issued.service_version).toBeLessThan(await versionOf(run, id))
      expect(await both(isActive(a, issued), isActive(b, issued))).toEqual([false, false])
    },
  )

  test('one that waits behind the loss of a permission does not carry it', async () => {
    const { a, b, run } = pair()
    const { id, caller, permission } = await account(a, run)
    const [, claims] = await inOrder<string | ServiceClaims>(pair(), GUARD, [
      async () =>
        codeOf(
          await inTx(b, (tx) =>
            takeServicePermission(b, ADAM, { accountId: id, id: permission }, tx),
          ),
        ),
      async () => {
        const answer = await issue(a, caller)
        return answer.ok ? answer.value : answer.fault.code
      },
    ])
    expect(claims).toBe('client_unauthenticated')
  })

  test('however they meet, no token outlives the change that it met', async () => {
    const { a, b, run } = pair()
    const { id } = await account(a, run)
    for (let round = 0; round < 25; round++) {
      const caller: ServiceAccountCaller = {
        as: 'service_account',
        tenant: ACME,
        serviceAccountId: id as ServiceAccountId,
        version: await versionOf(run, id),
      }
      const patch: ServiceAccountPatch = round % 2 === 0 ? { status: 'disabled' } : ROTATED
      const [issued, changed] = await Promise.all([issue(a, caller), change(b, id, patch)])
      expect(changed.ok).toBe(true)
      if (issued.ok) expect(await isActive(a, issued.value)).toBe(false)
      must(await change(b, id, { status: 'active' }))
    }
  })
})
