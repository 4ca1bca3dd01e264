import { afterEach, beforeEach, expect, test } from 'vitest'
import type { TenantId } from '../../src/core/vocabulary.ts'
import { resealCredentials } from '../../src/flows/reseal-credentials.ts'
import { openedFor } from '../../src/flows/tool-credential.ts'
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
const ACME = 'ten_acme' as TenantId

const contextOf = (id: string) => `tool_server ${ACME} ${id}`
async function sealedRow(id: string, name: string, by: ReturnType<typeof key>) {
  await admin.world.pg.query(
    `insert into service (id, title) values ($1, $1) on conflict do nothing`,
    [name],
  )
  await admin.world.pg.query(
    `insert into tool_server (id, tenant_id, name, title, url, sealed_credential, created_at)
     values ($1, $2, $3, $3, 'https://tools.example/mcp', $4, '2026-11-30T09:00:00Z')`,
    [id, ACME, name, createVault([by]).seal(`Bearer of ${id}`, contextOf(id))],
  )
}
const sealed = async (id: string) =>
  (
    await admin.world.rows<{ s: string }>(
      'select sealed_credential as s from tool_server where id = $1',
      [id],
    )
  )[0]?.s ?? ''

test('after a rotation every credential is sealed with the first key, and opens without the old one', async () => {
  await sealedRow('tsv_a', 'mail', OLD)
  await sealedRow('tsv_b', 'crm', NEW)
  const ctx = { ...admin.world.ctx, vault: createVault([NEW, OLD]) }
  expect(await resealCredentials(ctx)).toEqual({ resealed: 1, current: 1, unopened: [] })
  const fresh = { ...admin.world.ctx, vault: createVault([NEW]) }
  for (const id of ['tsv_a', 'tsv_b'])
    expect(openedFor(fresh, { tenantId: ACME, id }, await sealed(id))).toBe(`Bearer of ${id}`)
  const [record] = await admin.records()
  expect(record).toMatchObject({
    data: { what: 'tool_server.resealed', id: 'tsv_a', changes: { sealed_with: 'new' } },
  })
  expect(JSON.stringify(record)).not.toContain('Bearer of')
  expect(await resealCredentials(ctx)).toEqual({ resealed: 0, current: 2, unopened: [] })
})

test('one that opens with no key is named and stays as it is', async () => {
  await sealedRow('tsv_a', 'mail', LOST)
  const before = await sealed('tsv_a')
  const ctx = { ...admin.world.ctx, vault: createVault([NEW, OLD]) }
  expect(await resealCredentials(ctx)).toEqual({ resealed: 0, current: 0, unopened: ['tsv_a'] })
  expect(await sealed('tsv_a')).toBe(before)
})
