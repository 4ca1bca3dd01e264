import { decodeProtectedHeader, exportJWK, generateKeyPair, SignJWT } from 'jose'
import { PrivateKeyJwt } from 'oauth4webapi'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { withTx } from '../../src/db/tx.ts'
import { rotateKeys } from '../../src/tokens/keys.ts'
import {
  ACCESS_TOKEN,
  type Body,
  type Credentials,
  type Form,
  type LiveServer,
  serveLend,
  TOKEN_EXCHANGE,
} from '../support/live-server.ts'
import { expectRefused, outsider, verified } from '../support/oauth-client.ts'

/** SPEC section 6: what a client is told (RFC 8414, RFC 9728, JWKS), how it proves who it is, and that keys turn over. */

let lend: LiveServer

beforeAll(async () => {
  lend = await serveLend()
})
afterEach(async () => {
  await lend.endSessions('maya')
  expect(lend.bugs).toEqual([])
})
afterAll(() => lend.close())

const UNAUTHENTICATED = { status: 401, error: 'invalid_client', reason: 'client_unauthenticated' }
const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

const startForm = async (): Promise<Record<string, string>> => ({
  grant_type: TOKEN_EXCHANGE,
  subject_token: await lend.userToken('maya', 'app'),
  subject_token_type: ACCESS_TOKEN,
  template: 'renewal-briefs',
})

describe('metadata', () => {
  it.each(['acme', 'globex'])('of the issuer is at the address of RFC 8414: %s', async (tenant) => {
    const issuer = `${lend.publicUrl}/t/${tenant}`
    const path = `/.well-known/oauth-authorization-server/t/${tenant}`
    const { status, body, headers } = await lend.request<Body>(path)
    expect(status).toBe(200)
    expect(headers.get('content-type')).toMatch(/^application\/json/)
    expect(body).toMatchObject({
      issuer,
      token_endpoint: `${issuer}/oauth/token`,
      jwks_uri: `${issuer}/oauth/jwks`,
      introspection_endpoint: `${issuer}/oauth/introspect`,
      revocation_endpoint: `${issuer}/oauth/revoke`,
      grant_types_supported: [TOKEN_EXCHANGE, 'refresh_token', 'client_credentials'],
      response_types_supported: [],
      code_challenge_methods_supported: ['S256'],
      authorization_details_types_supported: ['lend_api', 'lend_data', 'lend_asset', 'lend_tool'],
    })
    expect(body.token_endpoint_auth_methods_supported).toEqual([
      'private_key_jwt',
      'client_secret_basic',
      'client_secret_post',
    ])
    expect(body.token_endpoint_auth_signing_alg_values_supported).toContain('ES256')
    for (const alg of body.token_endpoint_auth_signing_alg_values_supported as string[])
      expect(alg).not.toMatch(/^(HS|none)/)
  })

  it('of the MCP endpoint is at the address of RFC 9728, and is what its challenge names', async () => {
    const path = '/.well-known/oauth-protected-resource/t/acme/mcp'
    const { status, body } = await lend.request<Body>(path)
    expect(status).toBe(200)
    expect(body).toMatchObject({
      resource: lend.mcpUrl(),
      authorization_servers: [lend.issuer()],
      jwks_uri: `${lend.issuer()}/oauth/jwks`,
      bearer_methods_supported: ['header'],
    })
    const refused = await lend.request('/t/acme/mcp', { method: 'POST' })
    expect(refused.status).toBe(401)
    expect(refused.headers.get('www-authenticate')).toBe(
      `Bearer resource_metadata="${lend.publicUrl}${path}"`,
    )
  })

  it('lists every grant type that is taken and no other', async () => {
    const { body } = await lend.request<{ grant_types_supported: string[] }>(
      '/.well-known/oauth-authorization-server/t/acme',
    )
    const agent = await lend.agent()
    const types = [
      ...body.grant_types_supported,
      'authorization_code',
      'password',
      'urn:ietf:params:oauth:grant-type:device_code',
      'urn:openid:params:grant-type:ciba',
      'constructor',
      '__proto__',
    ]
    for (const grant_type of types) {
      const answer = await lend.token({ grant_type }, agent)
      const known = body.grant_types_supported.includes(grant_type)
      expectRefused(
        answer,
        // I13: it is taken, and never from an agent.
        grant_type === 'client_credentials'
          ? { error: 'unauthorized_client', reason: 'forbidden' }
          : known
            ? { error: 'invalid_request', reason: 'request_malformed' }
            : { error: 'unsupported_grant_type', reason: 'unsupported_grant_type' },
      )
    }
  })

  it('is not there for an unknown tenant, nor is anything else', async () => {
    const agent = await lend.agent()
    const form = await startForm()
    for (const tenant of ['nowhere', 'ACME', 'acme%20', '%61cme%00', 'a'.repeat(200), '..']) {
      for (const path of [
        `/.well-known/oauth-authorization-server/t/${tenant}`,
        `/.well-known/oauth-protected-resource/t/${tenant}/mcp`,
        `/t/${tenant}/oauth/jwks`,
      ])
        expect((await lend.request(path)).status, path).toBe(404)
      for (const endpoint of ['token', 'introspect', 'revoke'] as const)
        expect((await lend.oauth(endpoint, form, agent, tenant)).status).toBe(404)
    }
  })
})

describe('the served keys', () => {
  it('are public, of both algorithms, cacheable, and no tenant’s are another’s', async () => {
    const acme = await lend.request<{ keys: Body[] }>('/t/acme/oauth/jwks')
    const globex = await lend.request<{ keys: Body[] }>('/t/globex/oauth/jwks')
    expect(acme.headers.get('cache-control')).toBe('public, max-age=300')
    expect(acme.body.keys.map((k) => k.alg).sort()).toEqual(['ES256', 'RS256'])
    for (const key of [...acme.body.keys, ...globex.body.keys]) {
      expect(key.use).toBe('sig')
      expect(key.kid).toMatch(/^[A-Za-z0-9_-]{43}$/)
      for (const secret of ['d', 'p', 'q', 'dp', 'dq', 'qi', 'k'])
        expect(key).not.toHaveProperty(secret)
    }
    const kids = (set: typeof acme) => set.body.keys.map((k) => k.kid)
    for (const kid of kids(acme)) expect(kids(globex)).not.toContain(kid)
  })

  it('rotate at once without breaking a token: old ones verify and stay live, new ones have a new kid', async () => {
    const started = await lend.start('maya')
    const point = await lend.enforcementPoint()
    const before = decodeProtectedHeader(started.access_token).kid
    const tenantId = await lend.tenantId()
    const rotation = await withTx(lend.ctx.db, 'test', (tx) =>
      rotateKeys(tx, {
        tenantId,
        alg: 'ES256',
        now: lend.clock.now() / 1000,
        vault: lend.ctx.vault,
        pace: 'at_once',
      }),
    )
    expect(rotation).toMatchObject({ stage: 'activated', replaced: before })
    // Past the time for which an instance may go on with the keys that it has read.
    lend.clock.advance(31)
    const again = await lend.reissue(started.refresh_token)
    expect(decodeProtectedHeader(again.access_token).kid).toBe(rotation.kid)
    for (const token of [started.access_token, again.access_token]) {
      expect((await verified(lend, token, lend.mcpUrl())).sid).toBe(started.session_id)
      const seen = await lend.oauth<Body>('introspect', { token }, point)
      expect(seen.body.active).toBe(true)
      const mcp = await lend.mcp(token)
      expect(await mcp.call('iam.my_access')).toMatchObject({ grants: [] })
    }
  })
})

describe('a client authenticates', () => {
  it('by client_secret_basic or client_secret_post, and in one way only', async () => {
    const agent = await lend.agent()
    const form = await startForm()
    expect((await lend.token(form, agent)).status).toBe(200)
    expect((await lend.token({ ...form, ...agent }, null)).status).toBe(200)
    expect((await lend.token({ ...form, client_id: agent.client_id }, agent)).status).toBe(200)
    expectRefused(await lend.token({ ...form, ...agent }, agent), {
      error: 'invalid_request',
      reason: 'request_malformed',
      says: /exactly one way/,
    })
  })

  it('or is challenged as it tried, all failures alike', async () => {
    const agent = await lend.agent()
    const other = await lend.agent(undefined, 'globex')
    const form = await startForm()
    const wrong: Credentials[] = [
      { ...agent, client_secret: `${agent.client_secret}x` },
      { ...agent, client_secret: '' },
      { ...agent, client_id: 'agt_nosuch' },
      { ...agent, client_id: '' },
      { ...agent, client_id: "agt_x' or '1'='1" },
      { ...agent, client_id: 'agt_\u0000' },
      other,
    ]
    const bodies = new Set<string>()
    for (const credentials of wrong) {
      const answer = await lend.token(form, credentials)
      expectRefused(answer, UNAUTHENTICATED)
      expect(answer.headers.get('www-authenticate')).toMatch(/^Basic /)
      bodies.add(answer.text)
    }
    const posted = await lend.token({ ...form, ...agent, client_secret: 'wrong' }, null)
    expectRefused(posted, UNAUTHENTICATED)
    expect(posted.headers.get('www-authenticate')).toBeNull()
    bodies.add(posted.text)
    expectRefused(await lend.token(form, null), UNAUTHENTICATED)
    expect(bodies.size).toBe(1)
  })

  it('as an enforcement point gets no token', async () => {
    const point = await lend.enforcementPoint()
    expectRefused(await lend.token(await startForm(), point), {
      error: 'unauthorized_client',
      reason: 'forbidden',
    })
  })
})

describe('private_key_jwt', () => {
  type Key = Awaited<ReturnType<typeof generateKeyPair>>['privateKey']
  type Keyed = { id: string; kid: string; key: Key }
  let keyed: Keyed

  /** Registers an agent with a public key and no secret, as an admin does. */
  beforeAll(async () => {
    const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true })
    const jwk = { ...(await exportJWK(publicKey)), kid: 'first', alg: 'ES256', use: 'sig' }
    const made = await lend.api<{ id: string; has_secret: boolean }>(
      await lend.userToken('adam'),
      'POST',
      '/admin/agents',
      {
        name: 'Keyed assistant',
        templates: ['renewal-briefs'],
        app_clients: ['renewal-app'],
        jwks: { keys: [jwk] },
      },
    )
    expect(made.status, made.text).toBe(201)
    expect(made.body.has_secret).toBe(false)
    expect(made.body).not.toHaveProperty('client_secret')
    keyed = { id: made.body.id, kid: 'first', key: privateKey }
  })

  const now = () => Math.floor(lend.clock.now() / 1000)
  const assertion = (claims: Body = {}, header: Body = {}, key = keyed.key) =>
    new SignJWT(
      JSON.parse(
        JSON.stringify({
          iss: keyed.id,
          sub: keyed.id,
          aud: lend.issuer(),
          jti: crypto.randomUUID(),
          iat: now(),
          exp: now() + 60,
          ...claims,
        }),
      ),
    )
      .setProtectedHeader({ alg: 'ES256', kid: keyed.kid, ...header })
      .sign(key)
  const asserting = async (client_assertion: string, form: Form = {}) =>
    lend.token(
      {
        ...(await startForm()),
        client_assertion_type: ASSERTION_TYPE,
        client_assertion,
        ...form,
      },
      null,
    )

  it('starts, re-issues and revokes, as an outside client does it', async () => {
    const auth = PrivateKeyJwt({ key: keyed.key, kid: keyed.kid })
    const client = await outsider(lend, keyed.id, { auth })
    const { grant_type: _, ...form } = await startForm()
    const issued = await client.exchange(form)
    const claims = await verified(lend, issued.access_token, lend.mcpUrl())
    expect(claims).toMatchObject({ client_id: keyed.id, act: { sub: keyed.id } })
    const again = await client.refresh(issued.refresh_token ?? '')
    expect(again.session_id).toBe(issued.session_id)
    await client.revoke(again.access_token)
    const [row] = await lend.rows('select status from session where id = $1', [
      String(issued.session_id),
    ])
    expect(row).toEqual({ status: 'revoked' })
  })

  it('is used once: a replay is refused, also of two at the same time', async () => {
    const once = await assertion()
    expect((await asserting(once)).status).toBe(200)
    expectRefused(await asserting(once), UNAUTHENTICATED)
    const twin = await assertion()
    const answers = await Promise.all([asserting(twin), asserting(twin), asserting(twin)])
    expect(answers.map((a) => a.status).sort()).toEqual([200, 401, 401])
    // The jti is what is used up, however the assertion around it differs.
    const jti = crypto.randomUUID()
    expect((await asserting(await assertion({ jti }))).status).toBe(200)
    expectRefused(await asserting(await assertion({ jti, exp: now() + 90 })), UNAUTHENTICATED)
  })

  it('is refused for every defect, alike', async () => {
    const stranger = await generateKeyPair('ES256')
    const defects = [
      assertion({ aud: `${lend.issuer()}/oauth/token` }),
      assertion({ aud: lend.issuer('globex') }),
      assertion({ aud: [lend.issuer()] }),
      assertion({ aud: undefined }),
      assertion({ exp: now() - 60 }),
      assertion({ exp: now() + 400 }),
      assertion({ exp: undefined }),
      assertion({ jti: undefined }),
      assertion({ jti: '' }),
      assertion({ iss: (await lend.agent()).client_id }),
      assertion({ sub: (await lend.agent()).client_id }),
      assertion({ iat: now() + 300 }),
      assertion({}, { kid: 'second' }),
      assertion({}, { typ: 'at+jwt' }),
      assertion({}, {}, stranger.privateKey),
    ]
    for (const defect of defects) expectRefused(await asserting(await defect), UNAUTHENTICATED)
    const [head, payload] = (await assertion()).split('.')
    const none = Buffer.from(JSON.stringify({ alg: 'none' })).toString('base64url')
    for (const forged of [`${none}.${payload}.`, `${head}.${payload}.`, 'garbage', ''])
      expect((await asserting(forged)).status).toBeGreaterThanOrEqual(400)
  })

  it('is the only way for a client that registered keys and no secret', async () => {
    for (const client_secret of ['', 'x', 'null'])
      expectRefused(
        await lend.token(await startForm(), { client_id: keyed.id, client_secret }),
        UNAUTHENTICATED,
      )
  })

  it('names its half that is missing', async () => {
    const once = await assertion()
    expectRefused(await asserting(once, { client_assertion_type: 'jwt' }), {
      error: 'invalid_request',
      reason: 'request_malformed',
      says: /client_assertion_type/,
    })
    expectRefused(await asserting('', {}), {
      error: 'invalid_request',
      reason: 'request_malformed',
      says: /client_assertion/,
    })
    const agent = await lend.agent()
    expectRefused(await asserting(once, agent), {
      error: 'invalid_request',
      reason: 'request_malformed',
      says: /exactly one way/,
    })
    expectRefused(await asserting(once, { client_id: agent.client_id }), UNAUTHENTICATED)
  })
})
