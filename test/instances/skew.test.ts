import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { postgresIsLeftOut } from '../support/postgres.ts'
import type { Settings } from '../system/support/server.ts'
import { startBalancer, via } from './support/balancer.ts'
import { started } from './support/client.ts'
import { DEPLOY_MILLIS_MAX, type Deployment, deploy } from './support/deployment.ts'

/** Two processes whose machines' clocks are four hours apart, on one database: it says what time it is. */
const title = 'two instances whose clocks are two hours ahead and two behind'
const PRELOAD = pathToFileURL(join(import.meta.dirname, 'support', 'skew.mjs')).href
const OFF_SECONDS = 7_200

describe.skipIf(postgresIsLeftOut)(
  postgresIsLeftOut ? `${title} (left out: LEND_TEST_NO_POSTGRES=1)` : title,
  () => {
    let deployment: Deployment
    beforeAll(async () => {
      // The demo's own provider lives by its machine's clock, as somebody else's does: it runs on a third, which is right.
      const skews = [0, OFF_SECONDS, -OFF_SECONDS]
      const settings = (n: number): Settings =>
        n === 0
          ? {}
          : { NODE_OPTIONS: `--import ${PRELOAD}`, LEND_TEST_SKEW_SECONDS: String(skews[n]) }
      deployment = await deploy({ instances: 3, front: startBalancer, settings, firstAlone: true })
    }, DEPLOY_MILLIS_MAX)
    afterAll(() => deployment?.close())

    test('agree on every token, end and question, and say what is off', async () => {
      const { client } = deployment
      const [, ahead = 0, behind = 0] = deployment.ports
      for (const [here, there] of [
        [ahead, behind],
        [behind, ahead],
      ] as const) {
        const session = started(await client.start(via(here)))
        const { iat = 0, exp = 0 } = decodeJwt(session.access_token)
        expect(Math.abs(iat - Date.now() / 1000)).toBeLessThan(30)
        expect(exp - iat).toBeLessThanOrEqual(900)
        // Neither of the future nor over, and no question has run out.
        const asked = await client.ask(session.access_token, {}, via(there))
        expect(asked.result?.items).toMatchObject([{ outcome: 'pending' }])
        const requestId = asked.result?.request_id ?? ''
        expect((await client.answer(requestId, via(here))).status).toBe(200)
        const again = await client.reissue(session.refresh_token, via(there))
        expect(again.body.authorization_details).toMatchObject([{ permission: 'accounts:read' }])
        const held = await client.ask(again.body.access_token ?? '', {}, via(here))
        expect(held.result?.items).toMatchObject([{ outcome: 'granted' }])
        expect((await client.revoke(session.refresh_token, via(there))).status).toBe(200)
      }
      for (const port of [ahead, behind])
        expect(deployment.server(port).output()).toContain(
          'the clocks of this machine and of the database differ',
        )
    })
  },
)
