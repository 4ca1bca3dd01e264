import { copyFileSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { JWK } from 'jose'
import postgres from 'postgres'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { thumbprintOf } from '../../src/flows/checkpoint.ts'
import { until } from '../mcp/support/until.ts'
import { postgresIsLeftOut } from '../support/postgres.ts'
import { freePort, type Settings, startServer } from '../system/support/server.ts'
import { startBalancer, via } from './support/balancer.ts'
import { cli } from './support/client.ts'
import { DEPLOY_MILLIS_MAX, type Deployment, deploy } from './support/deployment.ts'
import { type Holders, holdersOf, type Load, startLoad } from './support/holders.ts'

/**
 * Two processes of the built server on one database, asked without a pause by whoever holds a secret of Lend's, while every key
 * and secret is replaced. Not one request fails.
 */
const title = 'every key and secret is rotated under load'
const secretKey = (byte: number) => Buffer.alloc(32, byte).toString('base64url')
/** The last has the name of the one before. */
const [A, B, WRONG] = [`a:${secretKey(1)}`, `b:${secretKey(2)}`, `b:${secretKey(3)}`]

describe.skipIf(postgresIsLeftOut)(
  postgresIsLeftOut ? `${title} (left out: LEND_TEST_NO_POSTGRES=1)` : title,
  () => {
    let deployment: Deployment
    let sql: postgres.Sql
    let home: string
    let holders: Holders
    let load: Load
    let thumbprints: string[] = []
    let secretKeys = A
    const folder = (n: number) => join(home, String(n))
    /** As they are now: each start has them anew. */
    const settings = (n: number): Settings => ({
      LEND_DATA: folder(n),
      LEND_DRAIN_SECONDS: '1',
      LEND_SECRET_KEYS: secretKeys,
      LEND_CHECKPOINT_KEYS: thumbprints.join(','),
    })
    const settingsOf = (port: number, n: number): Settings => ({
      PORT: String(port),
      PUBLIC_URL: deployment.front.url,
      DATABASE_URL: deployment.databaseUrl,
      ...settings(n),
    })
    const ports = () => deployment.ports
    const first = () => settingsOf(ports()[0] ?? 0, 0)

    /** One after the other, so that one is always there. */
    async function restart(keys: string, between: (n: number) => void = () => {}) {
      secretKeys = keys
      for (const [n, port] of ports().entries()) {
        deployment.server(port).child.kill('SIGTERM')
        expect(await deployment.server(port).exit).toBe(0)
        between(n)
        deployment.start(port)
        await deployment.whenReady(port)
      }
    }
    const kept = async () => {
      const [row] = await sql`
        select (select count(*)::int from signing_key where private_jwk is not null) as clear_keys,
          (select count(*)::int from identity_provider where web_client_secret is not null) as clear_secrets,
          array(select distinct split_part(s, '.', 2) from (
            select sealed_private_jwk as s from signing_key union all
            select sealed_web_client_secret from identity_provider union all
            select sealed_credential from tool_server) x where s is not null order by 1) as names`
      return row
    }

    beforeAll(async () => {
      home = mkdtempSync(join(tmpdir(), 'lend-rotation-'))
      for (const n of [0, 1]) {
        mkdirSync(folder(n), { mode: 0o700 })
        const file = join(folder(n), 'checkpoint-key.json')
        thumbprints.push(await cli({}, 'new-checkpoint-key', file))
      }
      deployment = await deploy({ instances: 2, front: startBalancer, settings, firstAlone: true })
      sql = postgres(deployment.databaseUrl, { max: 1, onnotice: () => {} })
      holders = await holdersOf(deployment.front.url, first())
      load = startLoad(holders)
      await load.rounds(2)
    }, DEPLOY_MILLIS_MAX)
    afterAll(async () => {
      await load?.stop()
      await sql?.end()
      await deployment?.close()
      rmSync(home, { recursive: true, force: true })
    })
    /** Everybody has gone on since, through both, and nobody was refused anything. */
    const nobodyNoticed = async () => {
      await load.rounds(2)
      expect(load.wrong).toEqual([])
      expect(deployment.front.failures).toEqual([])
    }

    test('nothing lies in clear from the start', async () => {
      expect(await kept()).toEqual({ clear_keys: 0, clear_secrets: 0, names: ['a'] })
    })

    test.each(['agent', 'point', 'proxy', 'service'] as const)(
      'the secret of the %s, with an overlap',
      async (who) => {
        const old = holders.now[who]
        const made = await holders.rotate(who)
        expect(made).not.toBe(old)
        // Both open, at both instances; gateways hear of a new one within moments. Then only the new one is used.
        const answers = () =>
          Promise.all(
            ports().flatMap((port) => [old, made].map((one) => holders.try(who, one, via(port)))),
          )
        await expect.poll(answers, { timeout: 10_000 }).toEqual([200, 200, 200, 200])
        holders.now[who] = made
        await nobodyNoticed()
      },
    )

    test.each([[[]], [['--now']]])('the signing key of a tenant %j', async (how) => {
      const isStaged = how.length === 0
      const said = JSON.parse(await cli(first(), 'rotate-keys', '--tenant', 'acme', ...how))
      expect(said.stage).toBe(isStaged ? 'published' : 'activated')
      const [row] = await sql`select status from signing_key where kid = ${said.kid}`
      expect(row?.status).toBe(isStaged ? 'next' : 'active')
      await nobodyNoticed()
      expect((await kept())?.clear_keys).toBe(0)
    })

    test('the keys of the vault and of checkpoints: added, put first, the old ones taken out', async () => {
      const next: string[] = []
      for (const n of [0, 1])
        next.push(await cli({}, 'new-checkpoint-key', join(folder(n), 'next.json')))
      thumbprints = [...thumbprints, ...next]
      await restart(`${A},${B}`)
      await nobodyNoticed()
      await restart(`${B},${A}`, (n) =>
        renameSync(join(folder(n), 'next.json'), join(folder(n), 'checkpoint-key.json')),
      )
      await nobodyNoticed()
      expect(await cli(first(), 'reseal')).toMatch(/^signing keys: [1-9]\d* sealed anew/m)
      expect(await kept()).toEqual({ clear_keys: 0, clear_secrets: 0, names: ['b'] })
      await nobodyNoticed()
      await restart(B)
      await nobodyNoticed()
      // A new key has signed, and both ways of asking say that all is well.
      const hasSigned = async () => {
        const rows = await sql<{ jwk: JWK }[]>`select public_jwk as jwk from activity_checkpoint`
        const signers = await Promise.all(rows.map(({ jwk }) => thumbprintOf(jwk)))
        return next.some((one) => signers.includes(one))
      }
      await until(hasSigned, 'a checkpoint is signed with a new key', 90)
      const trusted = thumbprints.flatMap((one) => ['--trusted', one])
      const checked = await cli(
        { DATABASE_URL: deployment.databaseUrl },
        'verify-activity',
        ...trusted,
      )
      expect(checked).toMatch(/^ok: /m)
      expect(checked).not.toContain('NOT ok')
    }, 360_000)

    test('an instance with another key of the same name is not ready and says why; the others go on', async () => {
      const port = await freePort()
      mkdirSync(folder(2), { mode: 0o700 })
      copyFileSync(join(folder(0), 'checkpoint-key.json'), join(folder(2), 'checkpoint-key.json'))
      const server = startServer({ ...settingsOf(port, 2), LEND_SECRET_KEYS: WRONG })
      try {
        const ask = (path: string, init?: RequestInit) =>
          fetch(`http://127.0.0.1:${port}${path}`, init).catch(() => null)
        await until(async () => (await ask('/livez'))?.status === 200, 'it lives', 60)
        const ready = await ask('/readyz')
        expect([ready?.status, await ready?.json()]).toMatchObject([503, { status: 'keys_shut' }])
        expect(server.output()).toMatch(/"sealed_with":\["b"\].*signing keys cannot be opened/)
        // Nothing is issued there, and nothing begun: no session, no record of a token. Nor is a new key made by itself.
        const keysBefore = await holders.kids()
        const refused = await holders.startAt(`http://127.0.0.1:${port}`)
        expect(refused).toMatchObject({
          status: 503,
          body: { error: 'temporarily_unavailable', error_reason: 'unavailable' },
        })
        expect(await holders.kids()).toEqual(keysBefore)
        // What others signed it can tell all the same.
        expect((await ask('/t/acme/oauth/jwks'))?.status).toBe(200)
        await nobodyNoticed()
      } finally {
        server.child.kill('SIGKILL')
        await server.exit
      }
    })

    test('in the end everybody has asked, and both have answered', async () => {
      await load.stop()
      expect(load.wrong).toEqual([])
      for (const port of ports()) expect(deployment.front.answers.get(port)).toBeGreaterThan(50)
    })
  },
)
