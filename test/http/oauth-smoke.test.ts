import { afterAll, beforeAll, expect, it } from 'vitest'
import { serveLend, type LiveServer } from '../support/live-server.ts'
let lend: LiveServer
beforeAll(async () => { lend = await serveLend() })
afterAll(() => lend.close())
it('smoke', async () => {
  const s = await lend.start('maya')
  const mcp = await lend.mcp(s.access_token)
  const r = await mcp.call('iam.request_access', { items: [{ permission: 'accounts:read' }], reason: 'x' })
  console.log(JSON.stringify(r))
  const l = await lend.api(await lend.userToken('maya'), 'GET', '/access-requests?status=pending')
  console.log(l.text.slice(0, 900))
  console.log(lend.app.routes.map((r) => `${r.method} ${r.path}`).join('\n'))
  expect(lend.bugs).toEqual([])
})
