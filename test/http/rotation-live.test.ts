import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { withTx } from '../../src/db/tx.ts'
import { rotateKeys } from '../../src/tokens/keys.ts'
import {
  ACCESS_TOKEN,
  type Body,
  basic,
  type Credentials,
  type LiveServer,
  serveLend,
  TOKEN_EXCHANGE,
} from '../support/live-server.ts'
import { postgresIsLeftOut, type Scratch, scratchDatabase } from '../support/postgres.ts'

/** Whatever is rotated, no request of those that run meanwhile is refused, at either of two instances. */
describe.skipIf(postgresIsLeftOut)('rotated while requests run, at two instances', () => {
  let scratch: Scratch
  let one: LiveServer
  let two: LiveServer
  beforeAll(async () => {
    scratch = await scratchDatabase()
    one = await serveLend({ database: scratch.url })
    const other = { database: scratch.url, publicUrl: one.publicUrl }
    two = await serveLend(other)
  }, 60_000)
  afterAll(async () => {
    for (const lend of [two, one]) {
      await lend?.close()
      expect(lend?.bugs).toEqual([])
    }
    await scratch?.drop()
  })

  /** Asks again and again until `body` is done, then a little more. Every answer that is not 200. */
  async function refusedWhile(ask: () => Promise<number>, body: () => Promise<void>) {
    const refused: number[] = []
    let asked = 0
    let over = false
    const asking = (async () => {
      while (!over) {
        const status = await ask()
        asked++
        if (status !== 200) refused.push(status)
      }
    })()
    const answered = (more: number) => {
      const until = asked + more
      return expect
        .poll(() => asked, { timeout: 10_000, interval: 5 })
        .toBeGreaterThanOrEqual(until)
    }
    try {
      await answered(3)
      await body()
      await answered(3)
    } finally {
      over = true
      await asking
    }
    return refused
  }
  const adam = <T = Body>(method: string, path: string, body?: object) =>
    one.userToken('adam').then((token) => one.api<T>(token, method, path, body))
  const started = async (by: Credentials) => {
    const form = {
      grant_type: TOKEN_EXCHANGE,
      subject_token: await one.userToken('maya', 'app'),
      subject_token_type: ACCESS_TOKEN,
      template: 'renewal-briefs',
    }
    return one.token(form, by)
  }
  const both = async (ask: (lend: LiveServer) => Promise<number>) =>
    (await ask(one)) === 200 ? ask(two) : 0

  test('an agent’s secret: its app goes on with the old one until it has the new', async () => {
    const old = await one.agent()
    const { body } = await started(old)
    const path = `/admin/agents/${old.client_id}`
    let now = old
    const reissue = (lend: LiveServer) =>
      lend
        .token({ grant_type: 'refresh_token', refresh_token: body.refresh_token }, now)
        .then(({ status }) => status)
    const refused = await refusedWhile(
      () => both(reissue),
      async () => {
        const rotated = await adam<{ client_secret: string; previous_secret_until: string }>(
          'PATCH',
          path,
          { rotate_secret: { overlap_seconds: 60 } },
        )
        expect(rotated.status).toBe(200)
        expect(Date.parse(rotated.body.previous_secret_until)).toBeGreaterThan(one.clock.now())
        // The old one is still in use, then the new one is.
        expect(await both(reissue)).toBe(200)
        now = { ...old, client_secret: rotated.body.client_secret }
      },
    )
    expect(refused).toEqual([])
    // When the overlap is over it is dead, and the new one is not.
    for (const lend of [one, two]) lend.clock.advance(61)
    expect((await started(old)).status).toBe(401)
    expect((await started(now)).status).toBe(200)
    // At once: no overlap, and what there was is over too.
    const last = await adam<{ client_secret: string }>('PATCH', path, { rotate_secret: true })
    expect(last.body).not.toHaveProperty('previous_secret_until')
    expect((await started(now)).status).toBe(401)
    const put = { ...old, client_secret: last.body.client_secret }
    expect((await started(put)).status).toBe(200)
    agent = put
  })
  let agent: Credentials

  test('a tenant’s signing key, at once: tokens of both keys are good at both', async () => {
    const { body } = await started(agent)
    const point = await one.enforcementPoint()
    const issuers = [one, two]
    let turn = 0
    const issueAndAsk = async () => {
      // Issued here, asked about there.
      const [from, to] = turn++ % 2 === 0 ? issuers : issuers.toReversed()
      const form = { grant_type: 'refresh_token', refresh_token: body.refresh_token }
      const issued = await (from ?? one).token(form, agent)
      const asked = await (to ?? two).oauth<{ active: boolean }>(
        'introspect',
        { token: issued.body.access_token },
        point,
      )
      return asked.body.active === true ? asked.status : 0
    }
    const tenantId = await one.tenantId()
    const { vault } = one.ctx
    const now = one.clock.now() / 1000
    const of = { tenantId, alg: 'ES256', now, vault, pace: 'at_once' } as const
    const refused = await refusedWhile(issueAndAsk, async () => {
      await withTx(one.ctx.db, 'test', (tx) => rotateKeys(tx, of))
    })
    expect(refused).toEqual([])
  })

  test('an enforcement point’s secret: it is moved to the new one without a gap', async () => {
    const made = await adam<{ id: string; client_secret: string }>(
      'POST',
      '/admin/enforcement-points',
      { name: 'Rotated', services: ['accounts'] },
    )
    let now = { client_id: made.body.id, client_secret: made.body.client_secret }
    const follow = (lend: LiveServer) =>
      lend
        .request('/t/acme/enforce/revocations', { headers: { authorization: basic(now) } })
        .then(({ status }) => status)
    const refused = await refusedWhile(
      () => both(follow),
      async () => {
        const path = `/admin/enforcement-points/${made.body.id}`
        const change = { rotate_secret: { overlap_seconds: 60 } }
        const rotated = await adam<{ client_secret: string }>('PATCH', path, change)
        expect(await both(follow)).toBe(200)
        now = { ...now, client_secret: rotated.body.client_secret }
      },
    )
    expect(refused).toEqual([])
  })
})
