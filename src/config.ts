import { isIP } from 'node:net'
import { isAbsolute, resolve } from 'node:path'
import { RATE_LIMITS, type RateLimit } from './ports.ts'

/** A key that seals what is kept for others, by name. 32 bytes in base64url. */
export type SecretKey = { readonly kid: string; readonly key: string }

/** The settings of an instance (SPEC section 13). */
export type Config = {
  readonly port: number
  /** Without a trailing slash. */
  readonly publicUrl: string
  /** Null: the embedded database. */
  readonly databaseUrl: string | null
  /** The same database without the transaction pooler that `databaseUrl` leads through; null: that is the server itself. */
  readonly databaseDirectUrl: string | null
  /** Redis or Valkey, for kicks between instances; null: through the database. */
  readonly redisUrl: string | null
  /** Absolute; null: nothing is kept. */
  readonly dataDir: string | null
  readonly demo: boolean
  /** RFC 7638 thumbprints of all instances' checkpoint keys; null: not set. */
  readonly checkpointKeys: readonly string[] | null
  /** How many whole months of the record are kept besides the one that is; null: all. */
  readonly activityMonths: number | null
  /** The first seals, all of them open; null: not set. */
  readonly secretKeys: readonly SecretKey[] | null
  /** Requests a minute, of each who is counted. */
  readonly rates: Readonly<Record<RateLimit, number>>
  /** Addresses and networks of the proxies in front, whose `X-Forwarded-For` is believed. */
  readonly trustedProxies: readonly string[]
  /** The OpenTelemetry collector that traces are sent to; null: there are none. */
  readonly otlpEndpoint: string | null
  /** Who is told when a state of the deployment changes; null: nobody. */
  readonly alerts: { readonly webhook: string; readonly secret: string | null } | null
  /** What traces and alerts call this deployment. */
  readonly deployment: string
  /** Where metrics are served, apart from everything else; null: nowhere. */
  readonly metrics: { readonly host: string; readonly port: number } | null
  /** How long connections are still taken after SIGTERM, for balancers to notice. */
  readonly drainSeconds: number
  /** Whether only loopback addresses are listened on: whenever clients can call no other, so always in the demo. */
  readonly loopbackOnly: boolean
}

/** A setting that is wrong stops the start: which one, and what it should be. */
export class BadSetting extends Error {
  constructor(name: string, should: string) {
    super(`${name} ${should}`)
    this.name = 'BadSetting'
  }
}

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]'])

function portOf(text: string | undefined): number {
  if (text === undefined || text === '') return 4000
  const port = Number(text)
  if (!/^[0-9]{1,5}$/.test(text) || port < 1 || port > 65535)
    throw new BadSetting(
      'PORT',
      `must be a whole number from 1 to 65535, not ${JSON.stringify(text)}`,
    )
  return port
}

/** Metrics say how busy a deployment is: on this machine alone, unless told otherwise. */
function metricsOf(env: NodeJS.ProcessEnv, port: number): Config['metrics'] {
  const { LEND_METRICS_PORT: text, LEND_METRICS_HOST: host } = env
  if (text === undefined || text === '') return null
  const own = Number(text)
  if (!/^[0-9]{1,5}$/.test(text) || own < 1 || own > 65535 || own === port)
    throw new BadSetting(
      'LEND_METRICS_PORT',
      `must be a whole number from 1 to 65535 other than PORT, not ${JSON.stringify(text)}`,
    )
  if (host !== undefined && host !== '' && isIP(host) === 0)
    throw new BadSetting(
      'LEND_METRICS_HOST',
      'must be the IP address of this machine to serve metrics on, as in 10.0.0.7',
    )
  return { port: own, host: host === undefined || host === '' ? '127.0.0.1' : host }
}

const DRAIN_SECONDS = 5
const DRAIN_SECONDS_MAX = 300

function drainOf(text: string | undefined, loopback: boolean): number {
  if (text === undefined || text === '') return loopback ? 0 : DRAIN_SECONDS
  const seconds = Number(text)
  if (!/^[0-9]{1,3}$/.test(text) || seconds > DRAIN_SECONDS_MAX)
    throw new BadSetting(
      'LEND_DRAIN_SECONDS',
      `must be a whole number from 0 to ${DRAIN_SECONDS_MAX}, not ${JSON.stringify(text)}`,
    )
  return seconds
}

function publicUrlOf(text: string | undefined, port: number): URL {
  if (text === undefined || text === '') return new URL(`http://localhost:${port}`)
  const should =
    'must be an absolute URL without path, query or fragment, as in https://lend.example'
  if (!URL.canParse(text)) throw new BadSetting('PUBLIC_URL', should)
  const url = new URL(text)
  const bare = url.pathname === '/' && url.search === '' && url.hash === '' && url.username === ''
  if (!bare || !['http:', 'https:'].includes(url.protocol))
    throw new BadSetting('PUBLIC_URL', should)
  if (url.protocol === 'http:' && !LOOPBACK.has(url.hostname))
    throw new BadSetting('PUBLIC_URL', 'must be https unless its host is a loopback address')
  return url
}

function databaseUrlOf(name: string, text: string | undefined): string | null {
  if (text === undefined || text === '') return null
  if (!URL.canParse(text) || !['postgres:', 'postgresql:'].includes(new URL(text).protocol))
    throw new BadSetting(
      name,
      'must be a Postgres URL, as in postgres://user:password@host:5432/lend',
    )
  return text
}

function directUrlOf(text: string | undefined, databaseUrl: string | null): string | null {
  const url = databaseUrlOf('DATABASE_DIRECT_URL', text)
  if (url !== null && databaseUrl === null)
    throw new BadSetting('DATABASE_DIRECT_URL', 'needs DATABASE_URL: the pooler in front of it')
  return url
}

function redisUrlOf(text: string | undefined): string | null {
  if (text === undefined || text === '') return null
  if (!URL.canParse(text) || !['redis:', 'rediss:'].includes(new URL(text).protocol))
    throw new BadSetting(
      'REDIS_URL',
      'must be a Redis or Valkey URL, as in redis://user:password@host:6379',
    )
  return text
}

function demoOf(text: string | undefined, loopback: boolean): boolean {
  if (text === undefined || text === '') return loopback
  if (text !== 'on' && text !== 'off')
    throw new BadSetting('LEND_DEMO', `must be on or off, not ${JSON.stringify(text)}`)
  if (text === 'on' && !loopback)
    throw new BadSetting(
      'LEND_DEMO',
      'can be on only while PUBLIC_URL is a loopback address, since anybody may sign in to the demo',
    )
  return text === 'on'
}

function checkpointKeysOf(text: string | undefined): readonly string[] | null {
  if (text === undefined || text === '') return null
  const keys = text.split(',').map((key) => key.trim())
  if (keys.some((key) => !/^[A-Za-z0-9_-]{43}$/.test(key)))
    throw new BadSetting(
      'LEND_CHECKPOINT_KEYS',
      'must be RFC 7638 thumbprints (43 characters each), separated by commas',
    )
  return keys
}

function activityMonthsOf(text: string | undefined): number | null {
  if (text === undefined || text === '') return null
  const months = Number(text)
  if (!/^[0-9]{1,4}$/.test(text) || months < 1)
    throw new BadSetting(
      'LEND_ACTIVITY_MONTHS',
      `must be a whole number from 1 to 9999, not ${JSON.stringify(text)}; without it, the record is kept for ever`,
    )
  return months
}

function secretKeysOf(text: string | undefined): readonly SecretKey[] | null {
  if (text === undefined || text === '') return null
  const keys = text.split(',').map((pair): SecretKey => {
    const [, kid = '', key = ''] =
      /^\s*([A-Za-z0-9_-]{1,32}):([A-Za-z0-9_-]{43})\s*$/.exec(pair) ?? []
    return { kid, key }
  })
  const kids = new Set(keys.map(({ kid }) => kid))
  // What was typed is a secret: it is not shown.
  if (kids.has('') || kids.size !== keys.length)
    throw new BadSetting(
      'LEND_SECRET_KEYS',
      'must be names and keys of 32 bytes in base64url, as in 2026a:{43 characters}, separated by commas; the first one seals',
    )
  return keys
}

function httpUrlOf(env: NodeJS.ProcessEnv, name: string, example: string): string | null {
  const text = env[name]
  if (text === undefined || text === '') return null
  const url = URL.canParse(text) ? new URL(text) : null
  // What was typed may hold a credential: it is not shown.
  if (url === null || !['http:', 'https:'].includes(url.protocol) || url.username !== '')
    throw new BadSetting(
      name,
      `must be an http or https URL without a name and password, as in ${example}`,
    )
  return text
}

/** The secret as Standard Webhooks writes it, so that any of its libraries can check what is signed with it. */
function alertsOf(env: NodeJS.ProcessEnv): Config['alerts'] {
  const webhook = httpUrlOf(env, 'LEND_ALERT_WEBHOOK', 'https://alerts.example/lend')
  const secret = env.LEND_ALERT_SECRET || null
  const [, base64 = ''] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret ?? '') ?? []
  const bytes = Buffer.from(base64, 'base64').byteLength
  if (secret !== null && (bytes < 24 || bytes > 64))
    throw new BadSetting('LEND_ALERT_SECRET', 'must be whsec_ and 24 to 64 bytes in base64')
  if (secret !== null && webhook === null)
    throw new BadSetting('LEND_ALERT_SECRET', 'signs nothing without LEND_ALERT_WEBHOOK')
  return webhook === null ? null : { webhook, secret }
}

function deploymentOf(text: string | undefined, url: URL): string {
  if (text === undefined || text === '') return url.hostname
  if (!/^[A-Za-z0-9._-]{1,64}$/.test(text))
    throw new BadSetting(
      'LEND_DEPLOYMENT',
      'must be at most 64 letters, digits, dots, dashes and underscores, as in production-eu',
    )
  return text
}

/** Generous: what one well-behaved caller never reaches, and one that has gone wrong does within seconds. */
const RATES_A_MINUTE: Config['rates'] = {
  client: 120_000,
  tenant: 600_000,
  session: 6_000,
  tools: 6_000,
  person: 12_000,
  point: 1_200_000,
  publisher: 600,
  address: 6_000,
}
const RATE_MAX = 1_000_000_000

function ratesOf(text: string | undefined): Config['rates'] {
  const pairs = text === undefined || text === '' ? [] : text.split(',')
  const rates = { ...RATES_A_MINUTE }
  for (const pair of pairs) {
    const [, name = '', digits = ''] = /^\s*([a-z]+):([0-9]{1,10})\s*$/.exec(pair) ?? []
    const limit = RATE_LIMITS.find((one) => one === name)
    const count = Number(digits)
    if (limit === undefined || count < 1 || count > RATE_MAX)
      throw new BadSetting(
        'LEND_RATE_LIMITS',
        `must be pairs of a limit (${RATE_LIMITS.join(', ')}) and requests a minute (1 to ${RATE_MAX}), as in session:600,person:1200, not ${JSON.stringify(pair)}`,
      )
    rates[limit] = count
  }
  return rates
}

const isNetwork = (text: string): boolean => {
  const [address = '', bits, more] = text.split('/')
  const family = isIP(address)
  if (family === 0 || more !== undefined) return false
  return (
    bits === undefined || (/^[0-9]{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128))
  )
}

function trustedProxiesOf(text: string | undefined): readonly string[] {
  if (text === undefined || text === '') return []
  const networks = text.split(',').map((one) => one.trim())
  const wrong = networks.find((one) => !isNetwork(one))
  if (wrong !== undefined)
    throw new BadSetting(
      'LEND_TRUSTED_PROXIES',
      `must be IP addresses or networks, as in 10.0.0.7,10.1.0.0/16, not ${JSON.stringify(wrong)}`,
    )
  return networks
}

/** Environment to configuration. Throws `BadSetting` at the first setting that is wrong. */
export function configFrom(env: NodeJS.ProcessEnv, cwd: string): Config {
  const port = portOf(env.PORT)
  const url = publicUrlOf(env.PUBLIC_URL, port)
  const loopback = LOOPBACK.has(url.hostname)
  const demo = demoOf(env.LEND_DEMO, loopback)
  const databaseUrl = databaseUrlOf('DATABASE_URL', env.DATABASE_URL)
  const data = env.LEND_DATA === undefined || env.LEND_DATA === '' ? '.lend' : env.LEND_DATA
  return {
    port,
    publicUrl: url.origin,
    databaseUrl,
    databaseDirectUrl: directUrlOf(env.DATABASE_DIRECT_URL, databaseUrl),
    redisUrl: redisUrlOf(env.REDIS_URL),
    dataDir: data === 'memory' ? null : isAbsolute(data) ? data : resolve(cwd, data),
    demo,
    checkpointKeys: checkpointKeysOf(env.LEND_CHECKPOINT_KEYS),
    activityMonths: activityMonthsOf(env.LEND_ACTIVITY_MONTHS),
    secretKeys: secretKeysOf(env.LEND_SECRET_KEYS),
    rates: ratesOf(env.LEND_RATE_LIMITS),
    trustedProxies: trustedProxiesOf(env.LEND_TRUSTED_PROXIES),
    otlpEndpoint: httpUrlOf(env, 'OTEL_EXPORTER_OTLP_ENDPOINT', 'http://localhost:4318'),
    alerts: alertsOf(env),
    deployment: deploymentOf(env.LEND_DEPLOYMENT, url),
    metrics: metricsOf(env, port),
    drainSeconds: drainOf(env.LEND_DRAIN_SECONDS, loopback),
    loopbackOnly: loopback,
  }
}
