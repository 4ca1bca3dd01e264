import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import * as contract from '../../schema/admin.ts'
import type { TenantId } from '../../src/core/vocabulary.ts'
import { openedFor } from '../../src/flows/tool-credential.ts'
import type { Json } from '../support/people.ts'
import { type Admin, createAdmin, expectProblem, items } from './support/admin.ts'

let admin: Admin
beforeEach(async () => {
  admin = await createAdmin()
})
afterEach(async () => {
  expect(admin.bugs).toEqual([])
  await admin.world.close()
})

const AT = '/admin/tool-servers'
const MAIL = { name: 'mail', title: 'Mail', url: 'https://mail.example/mcp' }
const SECRET = 'Bearer upstream-s3cret'

const sealed = async (id: unknown): Promise<string | null> => {
  const [row] = await admin.world.rows<{ sealed: string | null }>(
    'select sealed_credential as sealed from tool_server where id = $1',
    [id],
  )
  return row?.sealed ?? null
}
const opened = async (id: unknown, tenant = 'ten_acme') =>
  openedFor(
    admin.world.ctx,
    { tenantId: tenant as TenantId, id: String(id) },
    (await sealed(id)) ?? '',
  )

describe('tool servers', () => {
  test('are registered, changed, turned off and removed', async () => {
    const made = await admin.post(AT, MAIL)
    expect(made.body).toMatchObject({
      ...MAIL,
      mcp: 'http://localhost:4000/t/acme/tools/mail/mcp',
      credential_header: 'authorization',
      has_credential: false,
      private_network: false,
      status: 'active',
    })
    expect(contract.toolServer.safeParse(made.body).error).toBeUndefined()
    const path = `${AT}/${made.body.id}`
    const changed = await admin.patch(path, { title: 'Post', status: 'disabled' })
    expect(changed.body).toMatchObject({ title: 'Post', status: 'disabled' })
    expect(items(await admin.get(AT, 'cleo'))).toEqual([changed.body])
    expect((await admin.remove(path)).status).toBe(204)
    expectProblem(await admin.remove(path), 404, 'not_found')
    expectProblem(await admin.patch(path, { title: 'X' }), 404, 'not_found')
    expect((await admin.records()).map((r) => (r.data as Json).what)).toEqual([
      'tool_server.created',
      'tool_server.changed',
      'tool_server.removed',
    ])
  })

  test('keep a credential sealed for that row alone, and never show or record it', async () => {
    const made = await admin.post(AT, { ...MAIL, credential: SECRET })
    const { id } = made.body
    expect(made.body).toMatchObject({ has_credential: true })
    expect(await opened(id)).toBe(SECRET)
    expect(await opened(id, 'ten_globex')).toBeNull()
    const everything = JSON.stringify([
      made.body,
      items(await admin.get(AT)),
      await admin.state(),
      await admin.world.rows('select response, body_hash from idempotency_key'),
    ])
    expect(everything).not.toContain('s3cret')
    expect((await admin.records()).map((r) => (r.data as Json).changes)).toMatchObject([
      { credential: 'set' },
    ])
    const path = `${AT}/${id}`
    await admin.patch(path, { title: 'Post' })
    expect(await opened(id)).toBe(SECRET)
    await admin.patch(path, { credential: 'Bearer other' })
    expect(await opened(id)).toBe('Bearer other')
    const removed = await admin.patch(path, { credential: null })
    expect(removed.body).toMatchObject({ has_credential: false })
    expect(await sealed(id)).toBeNull()
  })

  test('send no credential to another address than it was given for', async () => {
    const made = await admin.post(AT, { ...MAIL, credential: SECRET })
    const path = `${AT}/${made.body.id}`
    const elsewhere = { url: 'https://evil.example/mcp' }
    expectProblem(await admin.patch(path, elsewhere), 422, 'unprocessable', 'credential')
    expect((await admin.patch(path, { ...elsewhere, credential: null })).status).toBe(200)
  })

  test('are one a name, and the same name is another tenant’s too', async () => {
    await admin.post(AT, MAIL)
    expectProblem(await admin.post(AT, MAIL), 409, 'already_exists', 'name')
    expect((await admin.post(AT, MAIL, 'gina')).status).toBe(201)
  })

  test.each<[string, object, number, string, string]>([
    ['a name that is no service', { name: 'nothing' }, 422, 'unprocessable', 'name'],
    ['a name that is no path segment', { name: 'a/b' }, 400, 'request_malformed', 'name'],
    ['plain http', { url: 'http://mail.example/mcp' }, 422, 'unprocessable', 'url'],
    ['another scheme', { url: 'file:///etc/passwd' }, 422, 'unprocessable', 'url'],
    [
      'credentials in the address',
      { url: 'https://u:p@mail.example/' },
      422,
      'unprocessable',
      'url',
    ],
    ['a fragment', { url: 'https://mail.example/mcp#x' }, 422, 'unprocessable', 'url'],
    [
      'Lend’s own address',
      { url: 'http://localhost:4000/t/acme/mcp', private_network: true },
      422,
      'unprocessable',
      'url',
    ],
    [
      'a header of the protocol',
      { credential_header: 'host' },
      422,
      'unprocessable',
      'credential_header',
    ],
    [
      'a header of MCP',
      { credential_header: 'mcp-session-id' },
      422,
      'unprocessable',
      'credential_header',
    ],
    [
      'a line break in the credential',
      { credential: 'Bearer x\r\nhost: y' },
      400,
      'request_malformed',
      'credential',
    ],
    ['an empty credential', { credential: '' }, 400, 'request_malformed', 'credential'],
    ['a member it does not know', { secret: 'x' }, 400, 'request_malformed', 'secret'],
  ])('refuse %s', async (_, more, status, code, path) => {
    const before = await admin.state()
    expectProblem(await admin.post(AT, { ...MAIL, ...more }), status, code, path)
    expect(await admin.state()).toBe(before)
  })
})
