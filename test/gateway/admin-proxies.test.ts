import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ProxyFamily } from '../../schema/auth-decision.ts'
import * as contract from '../../schema/gateway.ts'
import { type Body, basic, type LiveServer, serveLend } from '../support/live-server.ts'
import { ask, lentSession, reasonOf } from './support/proxy.ts'

/** A gateway made by an admin's calls alone, and what becomes of requests behind it. */
let lend: LiveServer
let session: Awaited<ReturnType<typeof lentSession>>
let token: string

beforeAll(async () => {
  lend = await serveLend()
  session = await lentSession(lend)
  token = await lend.userToken('adam')
})
afterAll(async () => {
  expect(lend.bugs).toEqual([])
  await lend.close()
})

async function admin(method: string, path: string, body?: unknown, headers: object = {}) {
  return lend.request<Body>(`/t/acme/api${path}`, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

type Made = { readonly id: string; readonly secret: string }
let named = 0
async function made(family: ProxyFamily = 'nginx'): Promise<Made> {
  named += 1
  const answer = await admin('POST', '/admin/proxies', { name: `Edge ${named}`, family })
  expect(answer.status, answer.text).toBe(201)
  expect(contract.proxyWithSecret.safeParse(answer.body).error).toBeUndefined()
  return { id: String(answer.body.id), secret: String(answer.body.secret) }
}
const mounted = (proxy: Made, prefix: string, service = 'accounts') =>
  admin('POST', `/admin/proxies/${proxy.id}/mounts`, { prefix, service })
const patched = (proxy: Made, body: object) => admin('PATCH', `/admin/proxies/${proxy.id}`, body)

const reason = async (secret: string, target: string, family: ProxyFamily = 'nginx') =>
  reasonOf(await ask(lend, { secret, target, family, token: session.token }))
/** As the feed brings a change to the gateway. */
const becomes = (secret: string, target: string, expected: string) =>
  expect.poll(() => reason(secret, target), { timeout: 5000 }).toBe(expected)
const whats = async (id: string) =>
  (
    await lend.rows<{ what: string }>(
      `select data ->> 'what' as what from activity
       where type = 'admin.changed' and data ->> 'id' = $1 order by n`,
      [id],
    )
  ).map((row) => row.what)

describe('a proxy made by an admin', () => {
  test('lets through what is held once a service is mounted, and no longer when it is not', async () => {
    const proxy = await made()
    await becomes(proxy.secret, '/shop/accounts', 'NO_SUCH_SERVICE')
    const mount = await mounted(proxy, '/shop')
    expect(mount.status, mount.text).toBe(201)
    expect(contract.mount.safeParse(mount.body).error).toBeUndefined()
    await becomes(proxy.secret, '/shop/accounts', 'allowed')
    expect(await reason(proxy.secret, '/shop/nothing')).toBe('NO_SUCH_PATH')
    const listed = await admin('GET', `/admin/proxies/${proxy.id}/mounts`)
    expect(listed.body.items).toEqual([mount.body])
    const at = `/admin/proxies/${proxy.id}/mounts/${mount.body.id}`
    expect((await admin('DELETE', at)).status).toBe(204)
    expect((await admin('DELETE', at)).status).toBe(404)
    await becomes(proxy.secret, '/shop/accounts', 'NO_SUCH_SERVICE')
    expect(await whats(proxy.id)).toEqual(['proxy.created', 'proxy.mounted', 'proxy.unmounted'])
  })

  test('is nobody at the address of another family', async () => {
    const proxy = await made('caddy')
    await mounted(proxy, '/shop')
    await expect
      .poll(() => reason(proxy.secret, '/shop/accounts', 'caddy'), { timeout: 5000 })
      .toBe('allowed')
    for (const family of ['nginx', 'traefik', 'envoy'] as const)
      expect(await reason(proxy.secret, '/shop/accounts', family)).toBe('PROXY_UNAUTHENTICATED')
  })

  test('is shut out while it is disabled', async () => {
    const proxy = await made()
    await mounted(proxy, '/shop')
    await becomes(proxy.secret, '/shop/accounts', 'allowed')
    expect((await patched(proxy, { status: 'disabled' })).body).toMatchObject({
      status: 'disabled',
    })
    await becomes(proxy.secret, '/shop/accounts', 'PROXY_UNAUTHENTICATED')
    await patched(proxy, { status: 'active' })
    await becomes(proxy.secret, '/shop/accounts', 'allowed')
  })

  test('opens with its old secret for as long as was said, and with none from before', async () => {
    const proxy = await made()
    await mounted(proxy, '/shop')
    await becomes(proxy.secret, '/shop/accounts', 'allowed')
    const second = await patched(proxy, { rotate_secret: { overlap_seconds: 20 } })
    expect(second.body.previous_secret_until).toBeDefined()
    await becomes(String(second.body.secret), '/shop/accounts', 'allowed')
    expect(await reason(proxy.secret, '/shop/accounts')).toBe('allowed')
    // No refresh is needed for it to end.
    lend.clock.advance(21)
    expect(await reason(proxy.secret, '/shop/accounts')).toBe('PROXY_UNAUTHENTICATED')
    expect(await reason(String(second.body.secret), '/shop/accounts')).toBe('allowed')

    const third = await patched(proxy, { rotate_secret: { overlap_seconds: 600 } })
    const fourth = await patched(proxy, { rotate_secret: { overlap_seconds: 0 } })
    expect(fourth.body.previous_secret_until).toBeUndefined()
    await becomes(String(fourth.body.secret), '/shop/accounts', 'allowed')
    for (const old of [proxy.secret, second.body.secret, third.body.secret])
      expect(await reason(String(old), '/shop/accounts')).toBe('PROXY_UNAUTHENTICATED')
  })

  test('a secret is answered once, kept as its hash, and in no record', async () => {
    const body = { name: 'Said once', family: 'nginx' }
    const key = { 'idempotency-key': 'a proxy, once' }
    const first = await admin('POST', '/admin/proxies', body, key)
    const again = await admin('POST', '/admin/proxies', body, key)
    expect([first.status, again.status]).toEqual([201, 201])
    const { secret, ...rest } = first.body
    expect(again.body).toEqual(rest)
    const [kept] = await lend.rows('select secret_hash from gateway_proxy where id = $1', [
      String(rest.id),
    ])
    expect(kept).toEqual({
      secret_hash: createHash('sha256').update(String(secret)).digest('hex'),
    })
    const rotated = await patched(
      { id: String(rest.id), secret: '' },
      { rotate_secret: { overlap_seconds: 5 } },
    )
    const everything = JSON.stringify([
      await lend.rows('select * from activity'),
      await lend.rows('select * from idempotency_key'),
      await lend.rows('select * from gateway_proxy'),
      (await admin('GET', '/admin/proxies')).body,
    ])
    for (const one of [secret, rotated.body.secret]) expect(everything).not.toContain(one)
  })
})

describe('what is not made', () => {
  test.each([
    ['no family', { name: 'X' }, 400, 'family'],
    ['an unknown family', { name: 'X', family: 'apache' }, 400, 'family'],
    ['no name', { family: 'nginx' }, 400, 'name'],
    ['a secret of its own', { name: 'X', family: 'nginx', secret: 'x' }, 400, 'secret'],
    ['a name that is taken', { name: 'Demo gateway', family: 'nginx' }, 409, 'name'],
  ])('a proxy from %s', async (_, body, status, path) => {
    const answer = await admin('POST', '/admin/proxies', body)
    expect(answer.status, answer.text).toBe(status)
    expect(answer.body.errors).toContainEqual(expect.objectContaining({ path }))
  })

  test.each([
    ['nothing', {}, 400, ''],
    ['a family', { family: 'caddy' }, 400, 'family'],
    ['an overlap without end', { rotate_secret: { overlap_seconds: 1e9 } }, 400, null],
    ['a negative overlap', { rotate_secret: { overlap_seconds: -1 } }, 400, null],
    ['a name that is taken', { name: 'Demo gateway' }, 409, 'name'],
  ])('a change of %s', async (_, body, status, path) => {
    const proxy = await made()
    const answer = await patched(proxy, body)
    expect(answer.status, answer.text).toBe(status)
    const named = path ?? 'rotate_secret.overlap_seconds'
    expect(answer.body.errors).toContainEqual(expect.objectContaining({ path: named }))
  })

  test.each([
    ['no slash', 'shop'],
    ['a slash at the end', '/shop/'],
    ['two slashes', '/shop//x'],
    ['dots', '/shop/../admin'],
    ['an escape', '/shop%2fx'],
    ['a query', '/shop?x'],
    ['a NUL', '/shop\u0000'],
    ['nothing', ''],
    ['a long path', `/${'x'.repeat(512)}`],
  ])('a mount with %s', async (_, prefix) => {
    const answer = await mounted(await made(), prefix)
    expect(answer.status, answer.text).toBe(400)
    expect(answer.body.errors).toContainEqual(expect.objectContaining({ path: 'prefix' }))
  })

  test('a mount where one is, of a service that is not there, or under no proxy', async () => {
    const proxy = await made()
    expect((await mounted(proxy, '/shop')).status).toBe(201)
    expect((await mounted(proxy, '/shop', 'mail')).status).toBe(409)
    expect((await mounted(proxy, '/post', 'nope')).status).toBe(422)
    expect((await mounted({ id: 'prx_none', secret: '' }, '/shop')).status).toBe(404)
    expect((await admin('GET', '/admin/proxies/prx_none/mounts')).status).toBe(404)
  })

  test('I17 a mount below another proxy’s address', async () => {
    const [one, other] = [await made(), await made()]
    const { body } = await mounted(one, '/shop')
    expect((await admin('DELETE', `/admin/proxies/${other.id}/mounts/${body.id}`)).status).toBe(404)
  })
})

describe('an enforcement point', () => {
  const introspects = async (id: string, secret: string) =>
    (
      await lend.request('/t/acme/oauth/introspect', {
        method: 'POST',
        headers: { authorization: basic({ client_id: id, client_secret: secret }) },
        body: new URLSearchParams({ token: session.token }),
      })
    ).status
  const NEW = { name: 'P', services: ['accounts'] }
  const point = async () => {
    const { body } = await admin('POST', '/admin/enforcement-points', NEW)
    const at = `/admin/enforcement-points/${body.id}`
    return {
      id: String(body.id),
      secret: String(body.client_secret),
      patch: (change: object) => admin('PATCH', at, change),
    }
  }

  test('is turned off and on', async () => {
    const { id, secret, patch } = await point()
    expect(await introspects(id, secret)).toBe(200)
    expect((await patch({ status: 'disabled' })).body).toMatchObject({ status: 'disabled' })
    expect(await introspects(id, secret)).toBe(401)
    await patch({ status: 'active' })
    expect(await introspects(id, secret)).toBe(200)
  })

  test('gets a new secret; the old one opens until its end, and none from before', async () => {
    const { id, secret, patch } = await point()
    const { body: second } = await patch({ rotate_secret: { overlap_seconds: 20 } })
    expect(second.previous_secret_until).toBeDefined()
    expect(await introspects(id, secret)).toBe(200)
    expect(await introspects(id, String(second.client_secret))).toBe(200)
    lend.clock.advance(21)
    expect(await introspects(id, secret)).toBe(401)
    const { body: third } = await patch({ rotate_secret: { overlap_seconds: 0 } })
    expect(await introspects(id, String(second.client_secret))).toBe(401)
    expect(await introspects(id, String(third.client_secret))).toBe(200)
    const stored = JSON.stringify(await lend.rows('select * from activity'))
    for (const one of [secret, second.client_secret, third.client_secret])
      expect(stored).not.toContain(one)
  })

  test('sees other services from its next call on, and is not given unknown ones', async () => {
    const { id, patch } = await point()
    const changed = await patch({ services: ['mail'], asks_about_users: true, name: 'Q' })
    expect(changed.body).toMatchObject({ services: ['mail'], asks_about_users: true, name: 'Q' })
    expect((await patch({ services: ['mail', 'nope'] })).status).toBe(422)
    expect((await patch({})).status).toBe(400)
    expect(await whats(id)).toEqual(['enforcement_point.created', 'enforcement_point.changed'])
  })
})
