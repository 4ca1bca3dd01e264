import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Db } from '../../src/db/tx.ts'
import { demoSlice } from '../../src/demo/catalog.ts'
import { type DemoSecrets, secretOf } from '../../src/demo/secrets.ts'
import { startBalancer } from '../instances/support/balancer.ts'
import { type Client, cli, started } from '../instances/support/client.ts'
import { DEPLOY_MILLIS_MAX, type Deployment, deploy } from '../instances/support/deployment.ts'
import { expectSound } from '../race/support/sound.ts'
import { openPostgres, runOn } from '../support/databases.ts'
import { basic } from '../support/live-calls.ts'
import { postgresIsLeftOut } from '../support/postgres.ts'

/** An instance is killed with -9 wherever it happens to be in any flow, while another goes on. */
const title = 'an instance that is killed'
const ROUNDS = 3
const WORKERS = 2

describe.skipIf(postgresIsLeftOut)(
  postgresIsLeftOut ? `${title} (left out: LEND_TEST_NO_POSTGRES=1)` : title,
  () => {
    let deployment: Deployment
    let client: Client
    let db: Db
    let service: { client_id: string; client_secret: string }

    beforeAll(async () => {
      deployment = await deploy({ instances: 2, front: startBalancer })
      client = deployment.client
      db = openPostgres(deployment.databaseUrl, 2)
      const [row] = await runOn(db)<{ value: DemoSecrets; id: string }>(
        `select i.value, c.id from installation i, service_client c
         where i.name = 'demo' and c.service_id = 'accounts'`,
      )
      if (row === undefined) throw new Error('the demo has no service client')
      const of = { kind: 'services', tenant: 'studio', name: 'accounts' } as const
      service = { client_id: row.id, client_secret: secretOf(row.value, of) }
    }, DEPLOY_MILLIS_MAX)
    afterAll(async () => {
      await db?.close()
      await deployment?.close()
    })

    /** What was answered with yes, and so must be there afterwards, whoever was killed. */
    const told = {
      started: new Set<string>(),
      granted: new Set<string>(),
      ended: new Set<string>(),
      published: new Set<number>(),
      /** Nobody was ever asked for these to be allowed. */
      unanswered: new Set<string>(),
    }

    /** An answer that the kill broke off in the middle is no yes; anything else is not as it should be. */
    const cutOff = (error: unknown) => {
      const isCut = error instanceof TypeError && /^(fetch failed|terminated)$/.test(error.message)
      if (!isCut) throw error
    }

    /** One session's life. Whatever is not answered with yes is left where it is. */
    async function live(answers: boolean): Promise<void> {
      const begun = await client.start()
      if (begun.status !== 200) return
      const session = started(begun)
      const id = session.session_id
      told.started.add(id)
      if (!answers) told.unanswered.add(id)
      const asked = await client.ask(session.access_token)
      const requestId = asked.result?.request_id
      if (answers && requestId !== undefined) {
        const answer = await client.answer(requestId)
        if (answer.status === 200) told.granted.add(id)
      }
      await client.reissue(session.refresh_token)
      if ((await client.revoke(session.refresh_token)).status === 200) told.ended.add(id)
    }

    async function publish(n: number): Promise<void> {
      const slice = demoSlice('accounts')
      const [first, ...rest] = slice.permissions
      const file = { ...slice, permissions: [{ ...first, title: `Accounts API ${n}` }, ...rest] }
      const answer = await fetch(`${deployment.front.url}/t/studio/api/catalog/services/accounts`, {
        method: 'PUT',
        headers: { authorization: basic(service), 'content-type': 'application/json' },
        body: JSON.stringify(file),
      })
      const body = (await answer.json().catch(() => ({}))) as { version?: number }
      if (answer.ok && body.version !== undefined) told.published.add(body.version)
      else if (answer.status < 500) throw new Error(`publish: ${answer.status}`)
    }

    test('anywhere leaves what was promised, and nothing half done', async () => {
      let isOver = false
      let n = 0
      const again = async (act: () => Promise<void>) => {
        while (!isOver) {
          await act().catch(cutOff)
          await pause(50)
        }
      }
      const work = [
        ...Array.from({ length: WORKERS }, (_, i) => again(() => live(i % 2 === 0))),
        again(async () => {
          await publish(++n)
          await pause(100)
        }),
      ]
      const [, victim = 0] = deployment.ports
      for (let round = 0; round < ROUNDS; round++) {
        await pause(400 + Math.random() * 800)
        const server = deployment.server(victim)
        server.child.kill('SIGKILL')
        await server.exit
        deployment.start(victim)
        await deployment.whenReady(victim)
      }
      isOver = true
      await Promise.all(work)

      const run = runOn(db)
      const ids = async (sql: string, of: ReadonlySet<string>) =>
        new Set((await run<{ id: string }>(sql, [[...of]])).map((row) => row.id))
      expect(told.granted.size).toBeGreaterThan(ROUNDS)
      expect(await ids('select id from session where id = any($1)', told.started)).toEqual(
        told.started,
      )
      expect(
        await ids(
          `select distinct session_id as id from activity
           where type = 'grant.created' and session_id = any($1)`,
          told.granted,
        ),
      ).toEqual(told.granted)
      expect(
        await ids(`select id from session where id = any($1) and status <> 'active'`, told.ended),
      ).toEqual(told.ended)
      // I19, I8: silence is no consent, whoever died.
      expect(
        await ids(
          `select distinct session_id as id from activity
           where type = 'grant.created' and session_id = any($1)`,
          told.unanswered,
        ),
      ).toEqual(new Set())
      const versions = await run<{ n: number }>(
        `select version::int as n from registry where service_id = 'accounts' order by 1`,
      )
      expect(versions.map((row) => row.n)).toEqual(expect.arrayContaining([...told.published]))
      // A publish is there whole or not at all.
      expect(
        await run(
          `select p.id from permission p, lateral (
             select slice from registry where service_id = 'accounts' order by version desc limit 1) r,
             jsonb_array_elements(r.slice -> 'permissions') as published
           where p.id = published ->> 'id' and p.title <> published ->> 'title'`,
        ),
      ).toEqual([])
      await expectSound(run)
      expect(await cli({ DATABASE_URL: deployment.databaseUrl }, 'verify-activity')).toMatch(
        /^ok: /m,
      )
    }, 240_000)
  },
)
