import { afterEach, beforeEach, expect, it } from 'vitest'
import { CannotSeal } from '../../src/db/sealed.ts'
import { type Db, withTx } from '../../src/db/tx.ts'
import { shutKeys } from '../../src/flows/watch-keys.ts'
import type { Vault } from '../../src/ports.ts'
import { createKeyStore, KeyShut, rotateKeys } from '../../src/tokens/keys.ts'
import { signToken } from '../../src/tokens/sign.ts'
import { createVault } from '../../src/vault.ts'
import { ACME, freshDb, GLOBEX, START, someClaims, stoppedClock, type TestClock } from './world.ts'

/** Private signing keys that lie sealed in the database, and an instance that has other keys than the rest. */
const key = (kid: string, byte: number) => ({
  kid,
  key: Buffer.alloc(32, byte).toString('base64url'),
})
const vault = createVault([key('a', 1)])
const other = createVault([key('b', 2)])
const SAME_NAME = createVault([key('a', 3)])
const OWN = createVault([key('a', 1)], false)

let db: Db
let clock: TestClock
beforeEach(async () => {
  db = await freshDb(vault)
  clock = stoppedClock()
})
afterEach(() => db.close())

const storeOf = (of: Vault | undefined, on = db) => createKeyStore({ db: on, clock, vault: of })
const sql = (text: string) =>
  withTx(db, 'test', (tx) => tx.sql(Object.assign([text], { raw: [text] })))
const sign = (of: Vault | undefined, tenant = ACME) =>
  signToken(storeOf(of), { tenantId: tenant.id, claims: someClaims(START) })
const rotate = (by: Vault | undefined) =>
  withTx(db, 'test', (tx) =>
    rotateKeys(tx, { tenantId: ACME.id, alg: 'ES256', now: START, vault: by, pace: 'at_once' }),
  )

it('no private part lies in clear, and the database holds no member of one', async () => {
  const rows = await sql('select private_jwk, sealed_private_jwk as sealed, kid from signing_key')
  expect(rows).toHaveLength(4)
  expect(JSON.stringify(rows)).not.toMatch(/"(d|p|q|dp)"/)
  await expect(sign(vault)).resolves.toMatch(/^ey/)
})

it.each<[string, Vault | undefined, readonly string[]]>([
  ['another key', other, ['a']],
  ['another key of the same name', SAME_NAME, ['a']],
  ['no key', undefined, ['a']],
  ['the key, and another first', createVault([key('b', 2), key('a', 1)]), []],
])('with %s: what verifies is there, and signing goes by the key', async (_, of, shut) => {
  const before = await sql('select kid from signing_key order by kid')
  expect(await shutKeys({ db, ...(of === undefined ? {} : { vault: of }) })).toEqual(shut)
  const signed = sign(of)
  if (shut.length > 0) await expect(signed).rejects.toThrow(KeyShut)
  else await expect(signed).resolves.toMatch(/^ey/)
  const store = storeOf(of)
  expect((await store.verifierKeys(ACME.id)).size).toBe(2)
  expect((await store.jwks(ACME.id)).keys).toHaveLength(2)
  // Nobody makes a new key by himself.
  expect(await sql('select kid from signing_key order by kid')).toEqual(before)
})

it('a refusal names tenant, key and what sealed it, and no secret', async () => {
  const [row] = await sql(
    `select kid from signing_key where tenant_id = 'ten_acme' and alg = 'ES256'`,
  )
  const said = await sign(other).catch((error: Error) => error.message)
  expect(said).toContain(String((row as { kid: string }).kid))
  expect(said).toMatch(/of tenant ten_acme, sealed with "a", does not open here/)
  expect(said).not.toContain('v1.')
})

it('a value that was put into another tenant’s row does not open, and is that tenant’s trouble alone', async () => {
  await sql(`update signing_key g set sealed_private_jwk = a.sealed_private_jwk, public_jwk = a.public_jwk
    from signing_key a where a.tenant_id = 'ten_acme' and g.tenant_id = 'ten_globex' and a.alg = g.alg`)
  await expect(sign(vault, GLOBEX)).rejects.toThrow(KeyShut)
  await expect(sign(vault)).resolves.toMatch(/^ey/)
  expect(await shutKeys({ db, vault })).toEqual([])
})

it('the key is lost for good: a rotation that the operator asks for signs again, and tokens of before stay good', async () => {
  const store = storeOf(other)
  const rotated = await rotate(other)
  expect((await store.signer(ACME.id)).kid).toBe(rotated.kid)
  expect([...(await store.verifierKeys(ACME.id)).keys()]).toContain(
    'replaced' in rotated ? rotated.replaced : undefined,
  )
})

it.each([
  ['none at all', undefined],
  ['one that only this instance has', OWN],
])('among sealed keys none is added in clear: %s', async (_, by) => {
  await expect(rotate(by)).rejects.toThrow(CannotSeal)
  expect(await sql('select kid from signing_key where private_jwk is not null')).toEqual([])
})

it('a key is opened once, however often it is read; a resealed one is opened anew', async () => {
  let opens = 0
  const counting: Vault = {
    ...vault,
    open: (sealed, context) => {
      opens++
      return vault.open(sealed, context)
    },
  }
  const store = storeOf(counting)
  const first = await store.signer(ACME.id)
  expect(opens).toBe(2)
  for (let n = 0; n < 5; n++) {
    clock.forward(31)
    expect((await store.signer(ACME.id)).privateKey).toBe(first.privateKey)
  }
  expect(opens).toBe(2)
  await rotate(vault)
  clock.forward(31)
  expect((await store.signer(ACME.id)).kid).not.toBe(first.kid)
  expect(opens).toBe(3)
})
