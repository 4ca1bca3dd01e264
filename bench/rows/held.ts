import { drive } from '../support/drive.ts'
import { CONCURRENCY, requestAccess, type Session, type World } from '../support/world.ts'

export const THREE = [
  { permission: 'accounts:read' },
  { permission: 'accounts.rows:my_region' },
  { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' },
]
const FIVE = [
  ...THREE,
  { permission: 'dashboard:view', resource: 'dashboard/forecast' },
  { permission: 'email:send', resource: 'domain/customer.example' },
]

/** Whether a tool answered that every item is granted: its result stands twice in the body, as data and as text. */
export const allGranted = (body: string): boolean =>
  body.includes('"outcome":"granted"') && !/"outcome":"(refused|pending)"/.test(body)

/** Sessions that hold five grants each. */
export async function holdFive(world: World, count: number): Promise<readonly Session[]> {
  const sessions = await world.startSessions(count)
  const asks = sessions.map((session) => requestAccess(session, FIVE))
  await drive(world.lend.origin, CONCURRENCY, asks, allGranted)
  return sessions
}
