import { decodeJwt } from 'jose'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { LendClient } from '../../src/app/lend.ts'
import type { AgentCaller, TenantRef } from '../../src/callers.ts'
import type { SessionClaims } from '../../src/core/claims.ts'
import { openServer } from '../../src/db/open.ts'
import { mailCredential } from '../../src/demo/tool-servers.ts'
import { admitCall } from '../../src/flows/call-tool.ts'
import { createVault } from '../../src/vault.ts'
import { type LiveServer, RENEWALS, serveLend } from '../support/live-server.ts'
import { postgresIsLeftOut, scratchDatabase } from '../support/postgres.ts'

/** The agent app sends mail through the tool gateway, and what is kept for a tool server outlives a restart. */
const SEND = { permission: 'email:send', resource: 'domain/customer.example' }
const MAIL = { to: 'jo@customer.example', subject: 's', body: 'b' }

describe('the agent app at the tool gateway', () => {
  let lend: LiveServer
  beforeAll(async () => {
    lend = await serveLend()
  })
  afterEach(() => lend.endSessions('maya'))
  afterAll(async () => {
    await lend.close()
    expect(lend.bugs).toEqual([])
  })

  async function appSession() {
    const agent = await lend.agent()
    const client = new LendClient(lend.publicUrl, {
      slug: 'acme',
      agent: { id: agent.client_id, name: RENEWALS, secret: agent.client_secret },
      templates: [],
      signIn: { issuer: '', clientId: '', clientSecret: '', privateNetwork: true },
    })
    const made = await lend.api<{ id: string }>(await lend.userToken('maya'), 'POST', '/sessions', {
      agent_id: agent.client_id,
      template: 'renewal-briefs',
    })
    const userToken = await lend.userToken('maya', 'app')
    const claimed = await client.claim({ sessionId: made.body.id, userToken })
    const send = (to = MAIL.to) =>
      client.callGateway(claimed, { server: 'mail', tool: 'send_email', args: { ...MAIL, to } })
    return { client, claimed, send }
  }

  test('is told what to ask for, asks, sends, and goes on when its token was superseded', async () => {
    const { client, claimed, send } = await appSession()
    const refused = await send()
    expect(refused).toMatchObject({
      status: 403,
      body: { ask: { tool: 'iam.request_access', items: [SEND] } },
    })
    const asked = await client.callTool(claimed, 'iam_request_access', {
      items: [SEND],
      reason: 'To send it.',
    })
    await lend.answer('maya', String(asked.request_id))
    expect(await send()).toEqual({
      status: 200,
      body: { sent: false, recorded: true, to: [MAIL.to] },
    })
    await client.callTool(claimed, 'iam_release_access', { items: [SEND] })
    expect((await send()).status).toBe(403)
  })
})

describe.skipIf(postgresIsLeftOut)(
  `after a restart${postgresIsLeftOut ? ' (left out: LEND_TEST_NO_POSTGRES=1)' : ''}`,
  () => {
    const key = (fill: number) => Buffer.alloc(32, fill).toString('base64url')
    const OLD = { kid: 'old', key: key(1) }
    const NEW = { kid: 'new', key: key(2) }

    const callerOf = (token: string, tenant: TenantRef): AgentCaller => {
      const claims = decodeJwt<SessionClaims>(token)
      return {
        as: 'agent',
        tenant,
        agentId: claims.client_id,
        userId: claims.on_behalf_of,
        sessionId: claims.sid,
        rootId: claims.root_sid,
        sessionVersion: claims.session_version,
        carries: [],
        omits: 0,
      }
    }

    test('the same session calls the same server with the same credential, under a rotated key too', async () => {
      const scratch = await scratchDatabase()
      const first = await serveLend({ database: scratch.url, vault: createVault([OLD]) })
      const { access_token } = await first.start('maya')
      await first.lend('maya', access_token, [SEND])
      const caller = callerOf(access_token, { id: await first.tenantId(), slug: 'acme' })
      await first.close()
      const db = openServer(scratch.url)
      const call = { server: 'mail', tool: 'send_email', args: MAIL }
      const calledWith = async (...keys: Parameters<typeof createVault>[0]) => {
        const ctx = { ...first.ctx, db: await db, vault: createVault(keys) }
        const admitted = await admitCall(ctx, caller, call)
        if (!admitted.ok) return admitted.fault.code
        return admitted.value.as === 'allowed' ? admitted.value.upstream.credential?.value : ''
      }
      try {
        const credential = mailCredential(first.secrets, 'acme')
        expect(await calledWith(OLD)).toBe(credential)
        expect(await calledWith(NEW, OLD)).toBe(credential)
        expect(await calledWith(NEW)).toBe('unprocessable')
      } finally {
        await (await db).close()
        await scratch.drop()
      }
    })
  },
)
