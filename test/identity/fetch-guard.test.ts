import type { RequestListener } from 'node:http'
import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, it } from 'vitest'
import { isPublicAddress } from '../../src/identity/addresses.ts'
import { type FetchGuard, FetchRefused, guardedFetch } from '../../src/identity/fetch-guard.ts'
import { serve } from './support/demo-world.ts'

const LIMITS = { timeoutMillis: 2_000, maxBytes: 1_000 }
const open: FetchGuard = { ...LIMITS, allowPrivate: true }
const shut: FetchGuard = { ...LIMITS, allowPrivate: false }

const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

async function serving(listener: RequestListener) {
  const { server, origin, close } = await serve(listener)
  closing.push(close)
  let connections = 0
  server.on('connection', () => {
    connections += 1
  })
  return { origin, port: new URL(origin).port, connections: () => connections }
}

const refusal = (answer: Promise<Response>): Promise<string> =>
  answer.then(
    (response) => `answered ${response.status}`,
    (error: unknown) => (error instanceof FetchRefused ? error.reason : `threw ${String(error)}`),
  )

describe('addresses', () => {
  it.each([
    '127.0.0.1',
    '127.9.9.9',
    '0.0.0.0',
    '10.1.2.3',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.169.254',
    '100.64.0.1',
    '100.127.255.254',
    '198.18.0.1',
    '192.0.0.8',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::ffff:127.0.0.1',
    '::ffff:8.8.8.8',
    '::127.0.0.1',
    '64:ff9b::7f00:1',
    'fe80::1',
    'fe80::1%eth0',
    '2600::1%eth0',
    'fec0::1',
    'fc00::1',
    'fd12:3456::1',
    'ff02::1',
    '2002:7f00:1::',
    '2001::1',
    '2001:db8::1',
    'localhost',
    '',
  ])('%s is not public', (address) => {
    expect(isPublicAddress(address)).toBe(false)
  })

  it.each([
    '8.8.8.8',
    '1.1.1.1',
    '100.63.255.255',
    '100.128.0.1',
    '172.15.0.1',
    '172.32.0.1',
    '192.0.1.1',
    '2606:4700:4700::1111',
    '2a00:1450:4001:81b::200e',
  ])('%s is public', (address) => {
    expect(isPublicAddress(address)).toBe(true)
  })
})

describe('a host inside', () => {
  it.each([
    '127.0.0.1',
    '2130706433',
    '0x7f.1',
    '127.1',
    '[::1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    'localhost',
    '0.0.0.0',
    '10.0.0.1',
    '169.254.169.254',
    '[fd00::1]',
  ])('%s is refused before anything connects', async (host) => {
    const { port, connections } = await serving((_req, res) => res.end('secret'))
    const answer = guardedFetch(shut)(`https://${host}:${port}/`)
    expect(await refusal(answer)).toBe('private_address')
    expect(connections()).toBe(0)
  })

  it('is reached when allowed, so that the refusals above are the guard’s', async () => {
    const { port, connections } = await serving((_req, res) => res.end('hello'))
    for (const host of ['127.0.0.1', 'localhost', '2130706433']) {
      const answer = await guardedFetch(open)(`http://${host}:${port}/`)
      expect(await answer.text()).toBe('hello')
    }
    expect(connections()).toBe(3)
  })

  it('is refused when only one of a name’s addresses is inside', async () => {
    const resolve = async () => [
      { address: '8.8.8.8', family: 4 },
      { address: '10.0.0.1', family: 4 },
    ]
    const answer = guardedFetch({ ...shut, resolve })('https://half.example/')
    expect(await refusal(answer)).toBe('private_address')
  })

  it('is not reached by a name that changes its answer (DNS rebinding)', async () => {
    const { port } = await serving((_req, res) => res.end('pinned'))
    let asked = 0
    const resolve = async () => {
      asked += 1
      return [{ address: asked === 1 ? '127.0.0.1' : '127.0.0.99', family: 4 }]
    }
    const answer = await guardedFetch({ ...open, resolve })(`http://no.such.example:${port}/`)
    expect(await answer.text()).toBe('pinned')
    expect(asked).toBe(1)
  })

  it('that resolves to nothing is unreachable', async () => {
    const answer = guardedFetch({ ...shut, resolve: async () => [] })('https://void.example/')
    expect(await refusal(answer)).toBe('unreachable')
  })
})

describe('a URL', () => {
  it('by plain http is refused unless private networks are allowed', async () => {
    const resolve = async () => [{ address: '8.8.8.8', family: 4 }]
    const answer = guardedFetch({ ...shut, resolve })('http://idp.example/')
    expect(await refusal(answer)).toBe('not_https')
  })

  it.each(['file:///etc/passwd', 'data:text/plain,hi', 'ftp://127.0.0.1/', '/relative'])(
    '%s is refused even then',
    async (url) => {
      expect(await refusal(guardedFetch(open)(url))).toBe('not_http')
    },
  )

  it('with credentials never reaches its host', async () => {
    const { port, connections } = await serving((_req, res) => res.end('hello'))
    const answer = guardedFetch(open)(`http://me:pass@127.0.0.1:${port}/`)
    expect(await refusal(answer)).toBe('carries_credentials')
    expect(connections()).toBe(0)
  })
})

describe('an answer', () => {
  it.each([301, 302, 303, 307, 308])(
    'that redirects (%i) is refused, not followed',
    async (status) => {
      let followed = false
      const { origin } = await serving((req, res) => {
        if (req.url === '/inside') followed = true
        res.writeHead(status, { location: '/inside' }).end()
      })
      const answer = guardedFetch(open)(`${origin}/`, { redirect: 'follow' })
      expect(await refusal(answer)).toBe('redirect')
      expect(followed).toBe(false)
    },
  )

  it('of the largest size passes and one byte more is refused', async () => {
    const { origin } = await serving((req, res) => {
      // Chunked, so that no header gives the size away.
      res.write('x'.repeat(500))
      res.end('x'.repeat(req.url === '/fits' ? 500 : 501))
    })
    const fits = await guardedFetch(open)(`${origin}/fits`)
    expect((await fits.text()).length).toBe(1_000)
    expect(await refusal(guardedFetch(open)(`${origin}/larger`))).toBe('too_large')
  })

  it('that never ends is cut off', async () => {
    const { origin } = await serving((_req, res) => {
      const timer = setInterval(() => res.write('x'.repeat(100)), 1)
      res.on('close', () => clearInterval(timer))
    })
    expect(await refusal(guardedFetch(open)(`${origin}/`))).toBe('too_large')
  })

  it('that never comes is given up', async () => {
    const { origin } = await serving(() => {})
    const answer = guardedFetch({ ...open, timeoutMillis: 100 })(`${origin}/`)
    expect(await refusal(answer)).toBe('too_slow')
  })

  it('that drips is given up: the time is for the whole, not for a silence', async () => {
    const { origin } = await serving((_req, res) => {
      const timer = setInterval(() => res.write('x'), 20)
      res.on('close', () => clearInterval(timer))
    })
    const answer = guardedFetch({ ...open, timeoutMillis: 150 })(`${origin}/`)
    expect(await refusal(answer)).toBe('too_slow')
  })

  it('waits no longer for a name that does not resolve in time', async () => {
    const resolve = () => new Promise<never>(() => {})
    const answer = guardedFetch({ ...shut, timeoutMillis: 100, resolve })('https://slow.example/')
    expect(await refusal(answer)).toBe('too_slow')
  })

  it('that breaks off is not taken for whole', async () => {
    const { origin } = await serving((_req, res) => {
      res.writeHead(200, { 'content-length': '100' })
      res.write('{"keys":[]}')
      setTimeout(() => res.destroy(), 20)
    })
    expect(await refusal(guardedFetch(open)(`${origin}/`))).toBe('unreachable')
  })

  it('is never decompressed', async () => {
    const packed = gzipSync('x'.repeat(100_000))
    const { origin } = await serving((_req, res) => {
      res.writeHead(200, { 'content-encoding': 'gzip' }).end(packed)
    })
    const answer = await guardedFetch(open)(`${origin}/`)
    expect((await answer.arrayBuffer()).byteLength).toBe(packed.byteLength)
  })

  it('comes back with status, headers and body, and the request went out whole', async () => {
    const { origin } = await serving(async (req, res) => {
      const chunks: Buffer[] = []
      for await (const chunk of req) chunks.push(chunk)
      const { authorization, 'content-type': type, cookie } = req.headers
      const sent = { method: req.method, authorization, type, cookie: cookie ?? null }
      res.writeHead(418, { 'content-type': 'application/json', 'x-mine': 'yes' })
      res.end(JSON.stringify({ ...sent, body: Buffer.concat(chunks).toString() }))
    })
    const answer = await guardedFetch(open)(`${origin}/`, {
      method: 'POST',
      headers: { authorization: 'Basic abc' },
      body: new URLSearchParams({ grant_type: 'x' }),
      signal: undefined,
    })
    expect(answer.status).toBe(418)
    expect(answer.headers.get('x-mine')).toBe('yes')
    expect(await answer.json()).toEqual({
      method: 'POST',
      authorization: 'Basic abc',
      type: 'application/x-www-form-urlencoded;charset=UTF-8',
      cookie: null,
      body: 'grant_type=x',
    })
  })

  it('is not waited for once the caller aborts', async () => {
    const { origin } = await serving(() => {})
    const abort = new AbortController()
    const answer = guardedFetch(open)(`${origin}/`, { signal: abort.signal })
    abort.abort()
    expect(await refusal(answer)).toBe('unreachable')
  })

  it('from nobody is unreachable', async () => {
    const { origin, close } = await serve(() => {})
    await close()
    expect(await refusal(guardedFetch(open)(`${origin}/`))).toBe('unreachable')
  })
})
