import { drive, type Sent } from '../support/drive.ts'
import { median } from '../support/rounds.ts'
import { type Counts, startWire, type Wire } from '../support/wire.ts'
import {
  addAllowRules,
  answer,
  introspection,
  pendingOf,
  reissue,
  requestAccess,
  type World,
  withWorld,
} from '../support/world.ts'
import { holdFive, THREE } from './held.ts'

/**
 * What one call costs at the database, counted on the wire between Lend and Postgres. Counted one call at a time, after
 * enough calls that every connection has prepared its statements; the median, since background work falls in between.
 */
const CALLS = {
  start: 'session start',
  reissue: 're-issue, 5 grants',
  request: 'request, 3 granted',
  ask: 'request, 1 pending',
  answer: 'the answer to it',
  introspect: 'introspection',
}
export type Call = keyof typeof CALLS
export type Cost = Counts & { readonly call: string }

const WARMING = 100
const COUNTED = 15

async function count(world: World, wire: Wire, calls: readonly Sent[]): Promise<Counts> {
  await drive(world.lend.origin, 8, calls.slice(COUNTED))
  const seen: Counts[] = []
  for (const call of calls.slice(0, COUNTED)) {
    wire.take()
    await drive(world.lend.origin, 1, [call])
    seen.push(wire.take())
  }
  const roundTrips = median(seen.map((one) => one.roundTrips))
  const typical = seen.find((one) => one.roundTrips === roundTrips) ?? seen[0]
  if (typical === undefined) throw new Error('nothing was counted')
  return typical
}

const kept = new Map<Call, Cost>()

async function countAll(): Promise<void> {
  const wires: Wire[] = []
  await withWorld(
    {
      name: 'cost',
      sessions: 800,
      through: async (url) => {
        const wire = await startWire(url)
        wires.push(wire)
        return wire
      },
    },
    async (world) => {
      const [wire] = wires
      if (wire === undefined) throw new Error('there is no wire')
      await addAllowRules(world.scratch.sql)
      const total = WARMING + COUNTED
      const add = async (call: Call, calls: readonly Sent[]) =>
        kept.set(call, { call: CALLS[call], ...(await count(world, wire, calls)) })
      await add('start', world.starts(total))
      const fresh = await world.startSessions(total)
      await add(
        'request',
        fresh.map((session) => requestAccess(session, THREE)),
      )
      const holding = await holdFive(world, total)
      await add(
        'reissue',
        holding.map((session) => reissue(world, session)),
      )
      await world.scratch.sql`delete from consent_rule`
      const asking = await world.startSessions(total)
      await add(
        'ask',
        asking.map((session) => requestAccess(session, THREE.slice(0, 1))),
      )
      const asked = await pendingOf(world, asking)
      await add(
        'answer',
        asking.flatMap((session) => {
          const request = asked.get(session.id)
          return request === undefined ? [] : [answer(session.user, request)]
        }),
      )
      await add(
        'introspect',
        asking.map((session) => introspection(world, session)),
      )
    },
  )
}

export async function costOf(call: Call): Promise<Cost> {
  if (!kept.has(call)) await countAll()
  const cost = kept.get(call)
  if (cost === undefined) throw new Error(`${call} was not counted`)
  return cost
}

/** What has been counted in this run. */
export const costs = (): readonly Cost[] => [...kept.values()]
