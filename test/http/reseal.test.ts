import { afterEach, beforeEach, expect, test } from 'vitest'
import { opened, type SealedKind, sealed, selectKept } from '../../src/db/sealed.ts'
import { withRead } from '../../src/db/tx.ts'
import { reseal } from '../../src/flows/reseal.ts'
import { createVault } from '../../src/vault.ts'
import { type Admin, createAdmin } from './support/admin.ts'

let admin: Admin
beforeEach(async () => {
  admin = await createAdmin()
})
afterEach(async () => {
  expect(admin.bugs).toEqual([])
  await admin.world.close()
})

const key = (kid: string, byte: number) => ({
  kid,
  key: Buffer.alloc(32, byte).toString('base64url'),
})
const OLD = key('old', 1)
const NEW = key('new', 2)
const LOST = key('lost', 3)
const ACME = 'ten_acme'

const AT = '2026-11-30T09:00:00Z'
const INSERTS: Record<SealedKind, string> = {
  signing_key: `insert into signing_key (kid, tenant_id, alg, public_jwk, status, created_at, private_jwk, sealed_private_jwk)
    values ($1, 'ten_acme', 'ES256', '{}', 'retired', '${AT}', $2::text::jsonb, $3)`,
  identity_provider: `insert into identity_provider (id, tenant_id, issuer, audience, first_party_clients, created_at,
      web_client_id, web_client_secret, sealed_web_client_secret)
    values ($1, 'ten_acme', 'https://' || $1, 'lend-api', array['web'], '${AT}', 'web', $2, $3)`,
  tool_server: `insert into tool_server (id, tenant_id, name, title, url, created_at, credential_header, sealed_credential)
    values ($1, 'ten_acme', $1, $1, 'https://tools.example/mcp', '${AT}', coalesce($2, 'authorization'), $3)`,
}
const textOf = (id: string) => `{"of": "${id}"}`

async function keep(kind: SealedKind, id: string, by: ReturnType<typeof key> | null) {
  if (kind === 'tool_server')
    await admin.world.pg.query('insert into service (id, title) values ($1, $1)', [id])
  const row = { kind, tenantId: ACME, id }
  const text = textOf(id)
  const both = by === null ? [text, null] : [null, sealed(createVault([by]), row, text)]
  await admin.world.pg.query(INSERTS[kind], [id, ...both])
}
const kept = () => withRead(admin.world.ctx.db, 'test', selectKept)
const ctxWith = (...keys: [ReturnType<typeof key>, ...ReturnType<typeof key>[]]) => ({
  ...admin.world.ctx,
  vault: createVault(keys),
})

const KINDS = ['signing_key', 'identity_provider', 'tool_server'] as const
test.each(KINDS)('%s: all that opens is sealed with the first key alone', async (kind) => {
  const canBeClear = kind !== 'tool_server'
  if (canBeClear) await keep(kind, 'a-clear', null)
  await keep(kind, 'b-old', OLD)
  await keep(kind, 'c-new', NEW)
  await keep(kind, 'd-lost', LOST)
  const lost = (await kept()).find(({ id }) => id === 'd-lost')
  const ctx = ctxWith(NEW, OLD)
  const of = (all: Awaited<ReturnType<typeof reseal>>) => all.find((one) => one.kind === kind)
  const unopened = ['d-lost']
  const cleared = canBeClear ? 1 : 0
  expect(of(await reseal(ctx))).toEqual({
    ...{ kind, sealed: cleared, resealed: 1, current: 1, unopened },
  })
  const after = await kept()
  expect(after.map(({ clear }) => clear)).toEqual(after.map(() => null))
  for (const row of after)
    expect(opened(ctxWith(NEW).vault, row, row)).toBe(row.id === 'd-lost' ? null : textOf(row.id))
  // What opens with no key is left as it was.
  expect(after.find(({ id }) => id === 'd-lost')).toEqual(lost)
  const records = await admin.records()
  expect(records.map(({ data }) => data)).toMatchObject([
    ...(canBeClear
      ? [
          {
            what: `${kind}.resealed`,
            id: 'a-clear',
            changes: { sealed_with: 'new', was: 'in clear' },
          },
        ]
      : []),
    { what: `${kind}.resealed`, id: 'b-old', by: 'lend', changes: { sealed_with: 'new' } },
  ])
  expect(JSON.stringify(records)).not.toContain('"of\\"')
  expect(of(await reseal(ctx))).toEqual({
    ...{ kind, sealed: 0, resealed: 0, current: 2 + cleared, unopened },
  })
})

test.each(KINDS)('%s: a sealed value that is moved to another row does not open', async (kind) => {
  await keep(kind, 'a', NEW)
  const [row] = await kept()
  if (row === undefined) throw new Error('nothing is kept')
  const { vault } = ctxWith(NEW)
  expect(opened(vault, row, row)).toBe(textOf('a'))
  const others = [
    { ...row, tenantId: 'ten_globex' },
    { ...row, id: 'b' },
    ...KINDS.filter((one) => one !== kind).map((one) => ({ ...row, kind: one })),
  ]
  for (const other of others) expect(opened(vault, other, row)).toBeNull()
  expect(opened(undefined, row, row)).toBeNull()
})
