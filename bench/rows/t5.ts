import type { Options } from '../options.ts'
import { createScratch, settle } from '../support/database.ts'
import { drive, type Sent } from '../support/drive.ts'
import { type Peer, startPeer } from '../support/machine.ts'
import { alternate, compare, type Row } from '../support/rounds.ts'
import {
  answer,
  assetCheck,
  CONCURRENCY,
  introspection,
  pendingOf,
  requestAccess,
  type World,
  withWorld,
} from '../support/world.ts'
import { newHosts, registerAgents, STEPS, type Step } from './rival.ts'

const RIVAL = 'better-auth + agent-auth'
const ITEM = { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' }

/** Lend's steps on sessions of one request each: ask (the user must answer), the answer, the asset check, introspection. */
async function lendSteps(world: World, count: number): Promise<Record<string, number>> {
  await world.endSessions()
  const sessions = await world.startSessions(count)
  const run = (requests: readonly Sent[], accept?: (body: string) => boolean) =>
    drive(world.lend.origin, CONCURRENCY, requests, accept)
  const asked = await run(
    sessions.map((session) => requestAccess(session, [ITEM])),
    (body) => body.includes('"outcome":"pending"'),
  )
  const pending = await pendingOf(world, sessions)
  const answered = await run(
    sessions.map((session) => {
      const request = pending.get(session.id)
      if (request === undefined) throw new Error('a request is missing')
      return answer(session.user, request)
    }),
    (body) => body.includes('allowed_by_user'),
  )
  const checked = await run(
    sessions.map((session) => assetCheck(world, session)),
    (body) => body.includes('"decision":true'),
  )
  const introspected = await run(
    sessions.map((session) => introspection(world, session)),
    (body) => body.includes('"active":true') && body.includes(ITEM.permission),
  )
  return {
    request: asked.perSecond,
    answer: answered.perSecond,
    check: checked.perSecond,
    introspect: introspected.perSecond,
  }
}

async function rivalSteps(
  peer: Peer,
  hosts: Awaited<ReturnType<typeof newHosts>>,
  count: number,
): Promise<Record<Step, number>> {
  const agents = await registerAgents(peer, hosts, count)
  const origin = String(peer.ready.baseURL)
  const run = async (step: Step, says: string) => {
    const requests = agents.map((agent) => STEPS[step](peer, agent))
    return (await drive(origin, CONCURRENCY, requests, (body) => body.includes(says))).perSecond
  }
  return {
    request: await run('request', '"pending"'),
    approve: await run('approve', '"approved"'),
    execute: await run('execute', 'opened'),
    verify: await run('verify', '"active":true'),
  }
}

/** T5: the nearest rival's steps against the same ones here, both on Postgres with a database of their own. */
export async function t5(options: Options): Promise<readonly Row[]> {
  const count = options.quick ? 40 : Math.round(200 * options.seconds)
  const scratch = await createScratch('t5_rival')
  const peer = await startPeer('rival', { DATABASE_URL: scratch.url })
  try {
    return await withWorld({ name: 't5', sessions: count, ...options.profiled }, async (world) => {
      const hosts = await newHosts(peer)
      // Each side measures several things in one go, so what it measured is kept beside the rounds.
      const seen: Record<string, number>[] = []
      await alternate(
        [
          ['Lend', async () => keep(seen, 'Lend', await lendSteps(world, count))],
          [RIVAL, async () => keep(seen, RIVAL, await rivalSteps(peer, hosts, count))],
        ],
        {
          rounds: options.rounds,
          warmed: async () => {
            await settle(world.scratch.sql)
            await settle(scratch.sql)
            options.pinned((await world.scratch.pin()) && (await scratch.pin()))
            seen.splice(0)
          },
        },
      )
      const rounds = paired(seen)
      const common = { row: 'T5', unit: '/s' as const, rounds }
      return [
        compare({
          ...common,
          what: `request access, the user must answer / ${RIVAL}: request a capability`,
          lend: 'Lend request',
          other: `${RIVAL} request`,
          reach: '≥ 4, then 8',
          least: 4,
        }),
        compare({
          ...common,
          what: `the user's answer / ${RIVAL}: approve`,
          lend: 'Lend answer',
          other: `${RIVAL} approve`,
          reach: '≥ 4, then 8',
          least: 4,
        }),
        compare({
          ...common,
          what: `AuthZEN check, live / ${RIVAL}: execute`,
          lend: 'Lend check',
          other: `${RIVAL} execute`,
          reach: '≥ 10, then 40',
          least: 10,
        }),
        compare({
          ...common,
          what: `introspection, live / ${RIVAL}: verify`,
          lend: 'Lend introspect',
          other: `${RIVAL} verify`,
          reach: '≥ 10, then 40',
          least: 10,
        }),
      ]
    })
  } finally {
    await peer.stop()
    await scratch.drop()
  }
}

function keep(seen: Record<string, number>[], side: string, steps: Record<string, number>): number {
  seen.push(Object.fromEntries(Object.entries(steps).map(([k, v]) => [`${side} ${k}`, v])))
  return Object.values(steps)[0] ?? Number.NaN
}

/** Two sides a round, in either order. */
const paired = (seen: readonly Record<string, number>[]): Record<string, number>[] =>
  Array.from({ length: Math.floor(seen.length / 2) }, (_, i) => ({
    ...seen[2 * i],
    ...seen[2 * i + 1],
  }))
