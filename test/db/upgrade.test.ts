import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { drizzle as drizzlePglite } from 'drizzle-orm/pglite'
import { migrate as migratePglite } from 'drizzle-orm/pglite/migrator'
import { drizzle as drizzlePostgres } from 'drizzle-orm/postgres-js'
import { migrate as migratePostgres } from 'drizzle-orm/postgres-js/migrator'
import type { JWK } from 'jose'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RequestId, SessionId, TenantId } from '../../src/core/vocabulary.ts'
import { migrations, openEmbedded, openServer } from '../../src/db/open.ts'
import { type Db, embeddedDb, postgresDb, withTx } from '../../src/db/tx.ts'
import { makeCheckpoint, thumbprintOf } from '../../src/flows/checkpoint.ts'
import { endSession } from '../../src/flows/end-session.ts'
import { refreshToken } from '../../src/flows/exchange-token.ts'
import { reseal } from '../../src/flows/reseal.ts'
import { verifyActivity } from '../../src/flows/verify-activity.ts'
import { systemIds } from '../../src/ids.ts'
import type { Ctx } from '../../src/ports.ts'
import { createKeyStore, rotateKeys } from '../../src/tokens/keys.ts'
import { createVault } from '../../src/vault.ts'
import { answer, asAgent, ask, BRIEFS, exchange, must } from '../race/support/instances.ts'
import { refusal, runOn } from '../support/databases.ts'
import { postgresIsLeftOut, urlOf } from '../support/postgres.ts'
import { EPOCH } from '../support/world-seed.ts'
import { newKey } from './support/chain.ts'
import { firstMigration, LIVE, OVER, REFRESH, writeAsFirst } from './support/first-schema.ts'

const ACME = 'ten_acme' as TenantId
const live = LIVE as SessionId

type Place = {
  /** At the first schema, and nothing in it. */
  readonly first: () => Promise<Db>
  /** By today's program, as a server opens it. */
  readonly open: () => Promise<Db>
  readonly drop: () => Promise<void>
}

function suite(made: () => Promise<Place>) {
  let place: Place
  let key: JWK
  let now = Date.parse(EPOCH) + 60_000
  const ctxOn = (db: Db): Ctx => ({
    ...{ db, clock: { now: () => now }, ids: systemIds, publicUrl: 'http://localhost:4000' },
    notify: { kick: () => {}, subscribe: () => () => {} },
  })
  const verified = async (db: Db) =>
    verifyActivity({ db }, { tenantId: ACME, trusted: [await thumbprintOf(key)] })
  const migrated = 'select count(*)::int as n from drizzle.__drizzle_migrations'

  beforeAll(async () => {
    key = await newKey()
    place = await made()
    const db = await place.first()
    await writeAsFirst(runOn(db), key)
    await db.close()
  }, 60_000)
  afterAll(() => place?.drop())

  test('an upgrade that fails half-way leaves the old schema whole', async () => {
    // Stands where a later migration puts a table of its own.
    const before = await place.first()
    const run = runOn(before)
    await run('create table gateway_feed (id integer)')
    await before.close()
    await expect(place.open()).rejects.toThrow()
    const after = await place.first()
    const left = runOn(after)
    expect(await left(migrated)).toEqual([{ n: 1 }])
    expect(await left(`select to_regclass('template_change') as there`)).toEqual([{ there: null }])
    expect(await left('select count(*)::int as n from activity')).toEqual([{ n: 7 }])
    await left('drop table gateway_feed')
    await after.close()
  })

  test('an upgrade keeps everything, and what lived goes on living', async () => {
    const db = await place.open()
    const run = runOn(db)
    const ctx = ctxOn(db)
    expect(await run(migrated)).toEqual([{ n: migrations().length }])
    expect(await verified(db)).toMatchObject({ ok: true, records: 7, checkpoint: { n: 1 } })
    expect(await run('select id, status from session order by id')).toEqual([
      { id: LIVE, status: 'active' },
      { id: OVER, status: 'ended' },
    ])
    expect(await run('select id from access_grant')).toEqual([{ id: 'grt_1' }])

    // A live session's credential, its grant, its question, and its user's rule.
    const again = must(
      await refreshToken(ctx, BRIEFS, { refreshToken: REFRESH, resource: undefined }),
    )
    expect(again.claims.authorization_details.map((one) => one.permission)).toEqual([
      'accounts:read',
    ])
    const question = { requestId: 'req_1' as RequestId, digest: 'digest', items: ['itm_2'] }
    must(await answer(ctx, question, 'allow_once'))
    const asked = must(
      await ask(ctx, await asAgent(run, live), [{ permission: 'accounts.rows:my_region' }]),
    )
    expect(asked.items.map(({ verdict }) => verdict.reason)).toEqual(['allow_rule'])
    must(await exchange(ctx))
    now += 60_000
    expect(await makeCheckpoint(ctx, key)).toBe(2)
    must(await endSession(ctx, await asAgent(run, live), undefined))
    expect((await verified(db)).problems).toEqual([])
    await db.close()
  })

  test('what lies in clear stays so until it is resealed: an older instance goes on beside a new one', async () => {
    const db = await place.open()
    const run = runOn(db)
    const kept = () =>
      run<{ clear: boolean; sealed: boolean }>(
        `select private_jwk is not null as clear, sealed_private_jwk is not null as sealed from signing_key order by created_at`,
      )
    const vault = createVault([{ kid: 'a', key: Buffer.alloc(32, 1).toString('base64url') }])
    const store = () => createKeyStore({ db, clock: { now: () => now }, vault })
    const kid = await thumbprintOf(key)
    expect((await store().signer(ACME)).kid).toBe(kid)
    // A rotation by the new version too is one that the old one can sign with.
    const of = { tenantId: ACME, alg: 'ES256', now: now / 1000, vault } as const
    const rotated = await withTx(db, 'test', (tx) => rotateKeys(tx, { ...of, pace: 'at_once' }))
    expect(await kept()).toEqual([
      { clear: true, sealed: false },
      { clear: true, sealed: false },
    ])
    const held = store()
    await held.signer(ACME)
    const done = await reseal({ ...ctxOn(db), vault })
    expect(done.find((one) => one.kind === 'signing_key')).toMatchObject({
      sealed: 2,
      unopened: [],
    })
    for (const one of [held, store()]) expect((await one.signer(ACME)).kid).toBe(rotated.kid)
    await withTx(db, 'test', (tx) => rotateKeys(tx, { ...of, pace: 'at_once' }))
    const sealed = { clear: false, sealed: true }
    expect(await kept()).toEqual([sealed, sealed, sealed])
    // From now on nothing is added in clear, and no value lies there twice or not at all.
    const bare = { ...of, vault: undefined, pace: 'at_once' } as const
    await expect(withTx(db, 'test', (tx) => rotateKeys(tx, bare))).rejects.toThrow(
      'LEND_SECRET_KEYS',
    )
    for (const [clear, text] of [
      ['{}', 'v1'],
      [null, null],
    ])
      expect(
        await refusal(
          run,
          'update signing_key set private_jwk = $1::text::jsonb, sealed_private_jwk = $2',
          [...[clear ?? null, text ?? null]],
        ),
      ).toBe('private_key_is_kept_once')
    await db.close()
  })

  test('the rules that the database keeps hold over old rows too', async () => {
    const db = await place.open()
    const run = runOn(db)
    const grant = `insert into access_grant (id, tenant_id, session_id, permission_id, source, sensitive, request_id, created_at)
      values ('grt_2', 'ten_acme', $1, $2, 'user', false, null, now())`
    expect(await refusal(run, grant, [OVER, 'billing:admin'])).not.toBeNull()
    expect(
      await refusal(run, `update session set status = 'active' where id = $1`, [OVER]),
    ).not.toBeNull()
    expect(await refusal(run, `update activity set type = type where chain = $1`, [OVER])).toBe(
      'activity_is_append_only',
    )
    expect(await refusal(run, `delete from activity_checkpoint where n = 1`)).toBe(
      'activity_is_append_only',
    )
    expect(
      await refusal(run, `update request_item set outcome = 'pending' where id = 'itm_1'`),
    ).toBe('prompt_is_answered_once')
    expect(
      await refusal(
        run,
        `update template_version set purpose = 'other' where template_id = 'tpl_briefs'`,
      ),
    ).toBe('published_version_is_immutable')
    await db.close()
  })
}

describe('from the first schema, embedded', () => {
  suite(async () => {
    const data = mkdtempSync(join(tmpdir(), 'lend-upgrade-'))
    const folder = firstMigration()
    return {
      first: async () => {
        const pglite = await PGlite.create(join(data, 'database'))
        await migratePglite(drizzlePglite(pglite), { migrationsFolder: folder })
        return embeddedDb(pglite)
      },
      open: () => openEmbedded(data),
      drop: async () => {
        for (const one of [data, folder]) rmSync(one, { recursive: true, force: true })
      },
    }
  })
})

async function emptyDatabase(): Promise<{ url: string; drop: () => Promise<void> }> {
  const name = `lend_test_upgrade_${process.pid}_${Date.now().toString(36)}`
  const on = async (statement: string) => {
    const sql = postgres(urlOf('postgres'), { max: 1, onnotice: () => {} })
    await sql.unsafe(statement).finally(() => sql.end())
  }
  await on(`create database ${name}`)
  return { url: urlOf(name), drop: () => on(`drop database if exists ${name} with (force)`) }
}

async function atFirst(url: string): Promise<Db> {
  const folder = firstMigration()
  const migrator = postgres(url, { max: 1, onnotice: () => {} })
  await migratePostgres(drizzlePostgres(migrator), { migrationsFolder: folder }).finally(() =>
    migrator.end(),
  )
  rmSync(folder, { recursive: true, force: true })
  return postgresDb(url, { readers: 2, seats: 2 })
}

describe.skipIf(postgresIsLeftOut)('from the first schema, on a Postgres server', () => {
  suite(async () => {
    const { url, drop } = await emptyDatabase()
    return { first: () => atFirst(url), open: () => openServer(url), drop }
  })

  test('instances that start at once migrate once', async () => {
    const { url, drop } = await emptyDatabase()
    const db = await atFirst(url)
    await writeAsFirst(runOn(db), await newKey())
    const all = await Promise.all([openServer(url), openServer(url), openServer(url)])
    for (const one of all)
      expect(
        await runOn(one)('select count(*)::int as n from drizzle.__drizzle_migrations'),
      ).toEqual([{ n: migrations().length }])
    for (const one of [db, ...all]) await one.close()
    await drop()
  })
})
