import { until } from '../../mcp/support/until.ts'
import { emptyDatabase, type Scratch } from '../../support/postgres.ts'
import { freePort, type Server, type Settings, startServer } from '../../system/support/server.ts'
import type { Balancer } from './balancer.ts'
import { type Client, clientOf } from './client.ts'

const READY_SECONDS_MAX = 60
/** For the hook that deploys: `deploy` has given up and tidied up before it is over. */
export const DEPLOY_MILLIS_MAX = 240_000

/** Whatever stands in front of the instances: clients know nothing else. */
type Front = {
  readonly url: string
  readonly close: () => Promise<void>
  /** Whether it sends to that one now, where it can tell. */
  readonly isReady?: (port: number) => boolean
}

/** Processes of the built server on one database, behind one address. */
export type Deployment<F extends Front = Balancer> = {
  readonly front: F
  readonly databaseUrl: string
  readonly ports: readonly number[]
  /** An agent's app and its user, who come in by the front. */
  readonly client: Client
  readonly server: (port: number) => Server
  /** Starts one, or one that has stopped anew. */
  readonly start: (port: number) => void
  readonly whenReady: (port: number) => Promise<void>
  readonly close: () => Promise<void>
}

export type DeploymentOf<F extends Front> = {
  readonly instances: number
  readonly front: (ports: readonly number[]) => Promise<F>
  /** Of the instance with this number, beside what all have. */
  readonly settings?: (n: number) => Settings
  /** The others start once the first is ready and its demo's people have signed in; otherwise all start at once. */
  readonly firstAlone?: boolean
}

const isReady = async (port: number): Promise<boolean> => {
  const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null)
  await answer?.arrayBuffer()
  return answer?.status === 200
}

async function freePorts(count: number): Promise<readonly number[]> {
  const ports = new Set<number>()
  while (ports.size < count) ports.add(await freePort())
  return [...ports]
}

/** What `deploy` has made so far, so that it is taken away again whatever becomes of it. */
function instancesOf(
  ports: readonly number[],
  front: Front,
  settingsOf: (port: number) => Settings,
) {
  const up = new Map<number, Server>()
  return {
    start: (port: number) => void up.set(port, startServer(settingsOf(port))),
    server: (port: number): Server => {
      const server = up.get(port)
      if (server === undefined) throw new Error(`nothing was started on ${port}`)
      return server
    },
    whenReady: async (port: number): Promise<void> => {
      const look = async () => front.isReady?.(port) ?? isReady(port)
      await until(look, `${port} is ready`, READY_SECONDS_MAX)
    },
    kill: async () => {
      for (const port of ports) {
        up.get(port)?.child.kill('SIGKILL')
        await up.get(port)?.exit
      }
    },
  }
}

export async function deploy<F extends Front = Balancer>(
  of: DeploymentOf<F>,
): Promise<Deployment<F>> {
  const undo: (() => Promise<void>)[] = []
  const close = async () => {
    for (const step of undo.splice(0).toReversed()) await step()
  }
  try {
    const scratch: Scratch = await emptyDatabase()
    undo.push(scratch.drop)
    const ports = await freePorts(of.instances)
    const front = await of.front(ports)
    undo.push(front.close)
    const settingsOf = (port: number): Settings => ({
      PORT: String(port),
      PUBLIC_URL: front.url,
      DATABASE_URL: scratch.url,
      LEND_DATA: 'memory',
      ...of.settings?.(ports.indexOf(port)),
    })
    const instances = instancesOf(ports, front, settingsOf)
    undo.push(instances.kill)
    const [first = 0, ...others] = ports
    const bring = async (some: readonly number[]) => {
      for (const port of some) instances.start(port)
      for (const port of some) await instances.whenReady(port)
    }
    await bring(of.firstAlone === true ? [first] : ports)
    const client = await clientOf(front.url, settingsOf(first))
    if (of.firstAlone === true) await bring(others)
    return { front, ports, client, ...instances, databaseUrl: scratch.url, close }
  } catch (error) {
    await close()
    throw error
  }
}
