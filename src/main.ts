import { setMaxListeners } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { getRequestListener } from '@hono/node-server'
import { busOf } from './bus/open.ts'
import { checkpointKey, trustedKeys } from './checkpoint-key.ts'
import { removeRunFile, writeRunFile } from './cli/run-file.ts'
import { BadSetting, type Config, configFrom } from './config.ts'
import { databaseClock } from './database-clock.ts'
import { openEmbedded, openServer } from './db/open.ts'
import { tracedDb } from './db/traced.ts'
import { type Db, withRead } from './db/tx.ts'
import { doorRoutes } from './demo/door.ts'
import { startDemo } from './demo/start.ts'
import { afterDemoSignIn, demoWebConfig } from './demo/world.ts'
import { createDrain, type Drain } from './drain.ts'
import { isOutage } from './fault.ts'
import type { Job } from './flows/periodic.ts'
import { type Gateway, startGateway } from './gateway/gateway.ts'
import { createApp } from './http/app.ts'
import { boundedServer } from './http/bounded-server.ts'
import { clientAddress } from './http/client-address.ts'
import { forwardAuthListener } from './http/forward-auth.ts'
import { guardedFetch } from './identity/fetch-guard.ts'
import { createUserTokenVerifier, type UserTokenVerifier } from './identity/login.ts'
import { systemClock, systemIds } from './ids.ts'
import { startJobs } from './jobs.ts'
import { createLog } from './log.ts'
import { createNotify } from './notify.ts'
import { startAlerts } from './ops/alerts.ts'
import { createMetrics, type Metrics } from './ops/metrics.ts'
import { serveMetrics } from './ops/serve.ts'
import type { Ctx } from './ports.ts'
import { createRates } from './rates.ts'
import { openSealedKeys } from './sealed-keys.ts'
import { createKeyStore } from './tokens/keys.ts'
import type { Tracing } from './tracing.ts'
import { openVault } from './vault.ts'

/** The only place that reads the environment and wires the parts together. */

let tracing: Tracing | null = null
const log = createLog(process.env.LEND_LOG ?? 'info', undefined, () => tracing?.ids() ?? {})

/** Tells how long each stage of the start took: in words to a person at a terminal, as JSON to a log. */
function stages() {
  const started = performance.now()
  let last = started
  return (stage: string) => {
    const now = performance.now()
    const [millis, total] = [Math.round(now - last), Math.round(now - started)]
    if (process.stdout.isTTY) console.log(`${String(total).padStart(6)} ms  ${stage}`)
    else log.info({ stage, millis, total_millis: total }, stage)
    last = now
  }
}

/** What a newcomer can do next. Nothing secret: the commands fetch what they need through the run file. */
const WELCOME = `
  Try:   npx lend demo-token --user maya       a person's token for the People API
         npx lend demo-credentials             what an agent needs
         npm run journey                       the whole story, told in the terminal
  Stop:  Ctrl+C. What is kept is in .lend/; remove that folder to start over.
`

/** A demo's people, agents and providers are known to everybody; its data must never be served as an organisation's. */
async function refuseDemoData(config: Config, db: Db): Promise<void> {
  if (config.demo) return
  const rows = await withRead(
    db,
    'was_demo',
    (tx) => tx.sql`select name from installation where name = 'demo'`,
  )
  if (rows.length === 0) return
  await db.close()
  throw new BadSetting(
    'LEND_DEMO',
    'cannot be off on data that was the demo, where anybody may sign in: choose another LEND_DATA or DATABASE_URL',
  )
}

/** Nothing of it is loaded where no collector is named. */
async function openTracing({ otlpEndpoint, deployment }: Config): Promise<Tracing | null> {
  if (otlpEndpoint === null) return null
  const { createTracing } = await import('./tracing.ts')
  return createTracing(otlpEndpoint, deployment)
}

const whichDatabase = ({ databaseUrl, dataDir }: Config): string =>
  databaseUrl === null ? `embedded, ${dataDir ?? 'in memory only'}` : 'Postgres server'

async function openDatabase(config: Config): Promise<Db> {
  const { databaseUrl, databaseDirectUrl, dataDir } = config
  const db = await (databaseUrl === null
    ? openEmbedded(dataDir)
    : openServer(databaseUrl, databaseDirectUrl))
  await refuseDemoData(config, db)
  return tracing === null ? db : tracedDb(db, tracing)
}

function listen(
  server: Server,
  port: number,
  host: string | undefined,
  setting = 'PORT',
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(
        error.code === 'EADDRINUSE'
          ? new BadSetting(setting, `${port} is in use by another program: choose another`)
          : error,
      ),
    )
    server.listen({ port, ...(host === undefined ? {} : { host }) }, resolve)
  })
}

/** In the demo anybody may sign in, so only this machine can reach it: both loopback addresses, where there are two. */
async function serveLoopback(make: () => Server, port: number): Promise<Server[]> {
  const v4 = make()
  await listen(v4, port, '127.0.0.1')
  const v6 = make()
  try {
    await listen(v6, port, '::1')
    return [v4, v6]
  } catch {
    return [v4]
  }
}

const warned = (what: string, more: object) => log.warn(more, what)
const failed = (what: string, more: object) => log.error(more, what)

/** AUTH_DECISION lines go where the log goes, many at once. */
const gatewaySays = {
  write: (lines: string) => void process.stdout.write(lines),
  note: warned,
}

const serverOf =
  (
    listener: ReturnType<typeof getRequestListener>,
    before: readonly ((req: IncomingMessage, res: ServerResponse) => boolean)[],
    drain: Drain,
  ) =>
  (): Server =>
    boundedServer((req, res) => {
      drain.watch(res)
      if (before.some((handle) => handle(req, res))) return
      void listener(req, res)
    })

async function serve(config: Config, make: () => Server): Promise<readonly Server[]> {
  if (config.loopbackOnly) return serveLoopback(make, config.port)
  const server = make()
  await listen(server, config.port, undefined)
  return [server]
}

function contextOf(
  config: Config,
  of: {
    readonly db: Db
    readonly clock: Ctx['clock']
    readonly notify: Ctx['notify']
    readonly stopping: AbortSignal
    readonly metrics: Metrics | null
  },
): Ctx {
  const { db, clock, notify, stopping, metrics } = of
  const observed = metrics === null ? {} : { observe: metrics.observe }
  return {
    ...{ db, clock, notify, stopping, ids: systemIds },
    publicUrl: config.publicUrl,
    vault: openVault(config),
    rates: createRates({ aMinute: config.rates, db, ...observed }),
    ...observed,
    ...(tracing === null ? {} : { trace: tracing }),
  }
}

/** Metrics on a port of their own: never among what clients can reach. */
async function startCounting(
  config: Config,
  metrics: Metrics | null,
  of: Parameters<Metrics['watch']>[0],
): Promise<{ readonly stop: () => Promise<void> }> {
  if (config.metrics === null || metrics === null) return { stop: async () => {} }
  metrics.watch(of)
  const server = serveMetrics(metrics.text)
  await listen(server, config.metrics.port, config.metrics.host, 'LEND_METRICS_PORT')
  return {
    stop: () =>
      new Promise((done) => {
        server.close(() => done())
        server.closeAllConnections()
      }),
  }
}

/** The webhook is the operator's own setting: it may be in a private network, unlike what others choose. */
function startTelling(
  config: Config,
  of: {
    readonly ctx: Ctx
    readonly gateway: Pick<Gateway, 'isFresh' | 'counts'>
    readonly verifier: UserTokenVerifier
    readonly onBug: (error: unknown) => void
  },
): Job | null {
  if (config.alerts === null) return null
  const send = guardedFetch({ allowPrivate: true, timeoutMillis: 5_000, maxBytes: 64 * 1024 })
  const { ctx, gateway, verifier, onBug } = of
  return startAlerts({
    ...{ ctx, gateway, onBug, send, ...config.alerts },
    unreachable: () => verifier.unreachable?.() ?? [],
    deployment: config.deployment,
  })
}

/** Whoever waits for somebody listens to it: as many as there are, and none that leaks. */
function createDraining(): AbortController {
  const draining = new AbortController()
  setMaxListeners(0, draining.signal)
  return draining
}

async function main(): Promise<void> {
  const config = configFrom(process.env, process.cwd())
  const stage = stages()
  tracing = await openTracing(config)
  const db = await openDatabase(config)
  stage(`database ready (${whichDatabase(config)})`)
  const onBug = (error: unknown, requestId?: string) =>
    log.error({ err: error, request_id: requestId }, 'bug')
  const clock = await databaseClock(db, systemClock, { note: warned })
  const notify = await createNotify(busOf(config, db), warned)
  const draining = createDraining()
  const metrics = config.metrics === null ? null : createMetrics()
  const ctx = contextOf(config, { db, clock, notify, stopping: draining.signal, metrics })
  const sealedKeys = await openSealedKeys(ctx, { shut: failed, onBug })
  const keys = createKeyStore({ db, clock, vault: ctx.vault })
  const verifier = createUserTokenVerifier({ publicUrl: config.publicUrl, clock })
  let ready = false
  const signingKey = await checkpointKey(config.dataDir)
  const took = metrics === null ? {} : { took: metrics.took }
  const gateway = startGateway({ ...{ ctx, keys, verifier, onBug }, ...gatewaySays, ...took })
  const app = createApp({
    ...{ ctx, keys, verifier, gateway },
    // What was taken back must be known before anything is let through.
    ready: () => ready && gateway.ready(),
    keysShut: sealedKeys.isShut,
    isFresh: gateway.isFresh,
    addressOf: clientAddress({ trusted: config.trustedProxies, direct: config.loopbackOnly }),
    onBug,
    trustedKeys: await trustedKeys(config, signingKey),
    ...(config.demo ? { web: demoWebConfig(), afterSignIn: afterDemoSignIn } : {}),
  })
  // The CLI comes in by a door that only the owner of the run file can open.
  const doorSecret = ctx.ids.secret()
  const demo = config.demo
    ? await startDemo({
        ctx,
        doorSecret,
        app,
        onBug,
        appFolder: config.dataDir === null ? null : join(config.dataDir, 'app'),
        anthropicKey: process.env.ANTHROPIC_API_KEY || undefined,
      })
    : null
  if (!demo) app.route('/', doorRoutes({ ctx, secret: doorSecret }))
  if (demo) stage('demo world ready')
  const { activityMonths: keptMonths } = config
  const jobs = await startJobs(ctx, { checkpointKey: signingKey, keptMonths }, onBug)
  const telling = startTelling(config, { ctx, gateway, verifier, onBug })
  const counting = await startCounting(config, metrics, {
    ctx,
    gateway,
    ready: () => ready && gateway.ready() && !sealedKeys.isShut(),
  })
  const before = [forwardAuthListener(gateway, ctx.trace), ...(demo === null ? [] : [demo.handle])]
  const drain = createDrain()
  const servers = await serve(config, serverOf(getRequestListener(app.fetch), before, drain))
  const { port, publicUrl } = config
  writeRunFile(config, { secret: doorSecret, pid: process.pid, port, publicUrl })
  demo?.listening()
  ready = true
  stage(`ready at ${config.publicUrl}`)
  if (demo && process.stdout.isTTY) console.log(WELCOME)

  stopOnSignal({
    drain: async (graceMillis) => {
      ready = false
      drain.announce()
      // The agent app first: what it waits for is about to be answered early, and its next call would find a closed door.
      demo?.stop()
      draining.abort()
      await drain.end(servers, graceMillis)
    },
    graceMillis: config.drainSeconds * 1000,
    close: async () => {
      const stopped = [jobs, gateway, counting, clock, sealedKeys, telling]
      await Promise.all(stopped.map((one) => one?.stop()))
      removeRunFile(config)
      await notify.stop()
      await db.close()
      await tracing?.stop()
    },
  })
}

/**
 * Drains on SIGTERM or SIGINT: waits are answered with what there is, what was asked is answered, then a clean end. Whoever
 * sits at a terminal has no balancer that would have to notice first.
 */
function stopOnSignal(of: {
  readonly drain: (graceMillis: number) => Promise<void>
  readonly graceMillis: number
  readonly close: () => Promise<void>
}): void {
  let stopping = false
  const stop = async (signal: string, graceMillis: number) => {
    if (stopping) return
    stopping = true
    log.info({ signal }, 'draining')
    await of.drain(graceMillis)
    await of.close()
    log.info('stopped')
    process.exit(0)
  }
  process.on('SIGTERM', () => void stop('SIGTERM', of.graceMillis))
  process.on('SIGINT', () => void stop('SIGINT', 0))
}

// The driver asks each new connection for its types, by a promise that nobody holds. If the connection is lost meanwhile,
// that is an outage like any other, and whoever waits for the connection is told; it must not end the process.
process.on('unhandledRejection', (error) => {
  if (!isOutage(error)) throw error
  log.warn({ err: error }, 'a connection to the database was lost while it was made')
})

main().catch((error: unknown) => {
  if (error instanceof BadSetting) {
    console.error(error.message)
    process.exit(2)
  }
  log.fatal({ err: error }, 'could not start')
  process.exit(1)
})
