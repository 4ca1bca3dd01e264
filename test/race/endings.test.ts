import { expect, test } from 'vitest'
import type { SessionId } from '../../src/core/vocabulary.ts'
import { endSession } from '../../src/flows/end-session.ts'
import { revokeToken } from '../../src/flows/introspect.ts'
import { endByPerson } from '../../src/flows/people-sessions.ts'
import { releaseAccess } from '../../src/flows/release-access.ts'
import { startSubagent } from '../../src/flows/start-subagent.ts'
import { sweep } from '../../src/flows/sweep.ts'
import type { Run } from '../support/databases.ts'
import {
  asAgent,
  ask,
  BRIEFS,
  both,
  codeOf,
  exchange,
  inOrder,
  inTx,
  lockOf,
  must,
  narrowed,
  pause,
  person,
  start,
  twoInstances,
} from './support/instances.ts'
import { expectSound } from './support/sound.ts'

const ROUNDS = 15
const CHILD = { template: 'email-drafter', readOnly: false }

const liveIn = (run: Run, root: SessionId) =>
  run(`select id from session where root_id = $1 and status = 'active'`, [root])

const heldIn = (run: Run, root: SessionId) =>
  run(
    `select g.id from access_grant g join session s on s.id = g.session_id where s.root_id = $1`,
    [root],
  )

twoInstances('two ends', (pair) => {
  test('I5 by the agent and by the user: one ends it, the other hears that it is over', async () => {
    const { a, b, run } = pair()
    for (let round = 0; round < ROUNDS; round++) {
      const session = await start(a, { mode: 'bypass' })
      must(await ask(a, await asAgent(run, session), [{ permission: 'accounts:read' }]))
      const agent = await asAgent(run, session)
      const results = await Promise.all([
        endSession(a, agent, undefined),
        inTx(b, (tx) => endByPerson(b, tx, person('maya'), session)),
      ])
      expect(results.map(codeOf).toSorted()).toEqual(['ok', 'session_over'])
      expect(await heldIn(run, session)).toEqual([])
    }
    await expectSound(run)
  })

  test('I11 by the agent’s client twice: the token of an ended session ends nothing again', async () => {
    const { a, b, run } = pair()
    const { refreshToken = '', sessionId } = must(await exchange(a))
    const ends = await both(
      revokeToken(a, BRIEFS, { refreshToken }),
      revokeToken(b, BRIEFS, { refreshToken }),
    )
    const counts = ends.map((end) => must(end)?.sessions ?? 0)
    expect(counts.toSorted()).toEqual([0, 1])
    expect(await liveIn(run, sessionId as SessionId)).toEqual([])
    await expectSound(run)
  })

  test('by two sweeps: each session times out once', async () => {
    const { a, b, run, advance } = pair()
    for (let i = 0; i < 5; i++) await start(a)
    advance(8 * 3600)
    const swept = await both(sweep(a), sweep(b))
    expect(swept.reduce((n, one) => n + one.sessions, 0)).toBe(5)
    expect(await run(`select id from session where status = 'active'`)).toEqual([])
    await expectSound(run)
  })
})

twoInstances('a subagent’s start', (pair) => {
  const begin = async () => {
    const { a, run } = pair()
    const parent = await start(a, { mode: 'bypass' })
    must(await ask(a, await asAgent(run, parent), [{ permission: 'accounts:read' }, narrowed(1)]))
    return { parent, agent: await asAgent(run, parent) }
  }

  test('I11 that waits behind the parent’s end finds the parent over', async () => {
    const { a, b, run } = pair()
    const { parent, agent } = await begin()
    const [ended, started] = await inOrder(pair(), lockOf(parent), [
      async () => codeOf(await endSession(a, agent, undefined)),
      async () => codeOf(await startSubagent(b, agent, CHILD)),
    ])
    expect({ ended, started }).toEqual({ ended: 'ok', started: 'session_over' })
    expect(await liveIn(run, parent)).toEqual([])
    await expectSound(run)
  })

  test('I11 that the parent’s end waits behind is ended with it', async () => {
    const { a, b, run } = pair()
    const { parent, agent } = await begin()
    const [started, ended] = await inOrder(pair(), lockOf(parent), [
      async () => codeOf(await startSubagent(b, agent, CHILD)),
      async () => codeOf(await endSession(a, agent, undefined)),
    ])
    expect({ started, ended }).toEqual({ started: 'ok', ended: 'ok' })
    expect(await liveIn(run, parent)).toEqual([])
    expect(await heldIn(run, parent)).toEqual([])
    await expectSound(run)
  })

  test('I11 and the parent’s end at once, many times: no live child of an ended parent', async () => {
    const { a, b, run } = pair()
    for (let round = 0; round < ROUNDS; round++) {
      const { parent, agent } = await begin()
      const [, started] = await both(
        pause(Math.random() * 4).then(async () => codeOf(await endSession(a, agent, undefined))),
        startSubagent(b, agent, CHILD).then(codeOf),
      )
      expect(['ok', 'session_over']).toContain(started)
      expect(await liveIn(run, parent)).toEqual([])
      expect(await heldIn(run, parent)).toEqual([])
    }
    await expectSound(run)
  })

  test('I9 and the parent’s release at once: the child keeps nothing that the parent gave back', async () => {
    const { a, b, run } = pair()
    for (let round = 0; round < ROUNDS; round++) {
      const { parent, agent } = await begin()
      const [released, started] = await both(
        releaseAccess(a, agent, [{ permission: 'accounts:read' }]).then(codeOf),
        startSubagent(b, agent, CHILD).then(codeOf),
      )
      expect(released).toBe('ok')
      expect(['ok', 'token_stale']).toContain(started)
      const kept = await run(
        `select g.id from access_grant g join session s on s.id = g.session_id
         where s.root_id = $1 and g.permission_id = 'accounts:read'`,
        [parent],
      )
      expect(kept).toEqual([])
      await inTx(a, (tx) => endByPerson(a, tx, person('maya'), parent))
    }
    await expectSound(run)
  })
})

twoInstances('a release', (pair) => {
  const ROWS = [{ permission: 'accounts.rows:my_region' }]
  const begin = async () => {
    const { a, run } = pair()
    const session = await start(a, { mode: 'bypass' })
    must(await ask(a, await asAgent(run, session), [narrowed(1), narrowed(2)]))
    return { session, agent: await asAgent(run, session) }
  }

  test('that a request waits behind: the request’s token is dead', async () => {
    const { a, b, run } = pair()
    const { session, agent } = await begin()
    const [released, requested] = await inOrder(pair(), lockOf(session), [
      async () => codeOf(await releaseAccess(a, agent, ROWS)),
      async () => codeOf(await ask(b, agent, [narrowed(3)])),
    ])
    expect({ released, requested }).toEqual({ released: 'ok', requested: 'token_stale' })
    expect(await heldIn(run, session)).toEqual([])
    await expectSound(run)
  })

  test('that waits behind a request gives back what the request got', async () => {
    const { a, b, run } = pair()
    const { session, agent } = await begin()
    const [requested, released] = await inOrder(pair(), lockOf(session), [
      async () => codeOf(await ask(b, agent, [narrowed(3)])),
      async () => codeOf(await releaseAccess(a, agent, ROWS)),
    ])
    expect({ requested, released }).toEqual({ requested: 'ok', released: 'ok' })
    expect(await heldIn(run, session)).toEqual([])
    await expectSound(run)
  })

  test('and requests at once, many times: nothing that came before it is left', async () => {
    const { a, b, run } = pair()
    for (let round = 0; round < ROUNDS; round++) {
      const { session, agent } = await begin()
      const results = await Promise.all([
        ask(a, agent, [narrowed(3)]).then(codeOf),
        pause(Math.random() * 4).then(async () => codeOf(await releaseAccess(b, agent, ROWS))),
        ask(b, agent, [narrowed(4)]).then(codeOf),
      ])
      expect(results[1]).toBe('ok')
      expect(['ok', 'token_stale']).toEqual(expect.arrayContaining([results[0], results[2]]))
      expect(await heldIn(run, session)).toEqual([])
      await inTx(a, (tx) => endByPerson(a, tx, person('maya'), session))
    }
    await expectSound(run)
  })
})
