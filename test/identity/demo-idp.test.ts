import { decodeJwt, decodeProtectedHeader } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { signIn } from '../../src/demo/idp/sign-in.ts'
import { type DemoWorld, serveDemoWorld } from './support/demo-world.ts'

let world: DemoWorld
beforeAll(async () => {
  world = await serveDemoWorld()
})
afterAll(() => world.close())

const authorizeUrl = (changes: Record<string, string | undefined> = {}) => {
  const issuer = world.provider('acme').issuer
  const url = new URL(`${issuer}/auth`)
  const parameters = {
    client_id: 'lend-web',
    redirect_uri: `${world.publicUrl}/auth/callback`,
    response_type: 'code',
    scope: 'openid',
    code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
    code_challenge_method: 'S256',
    ...changes,
  }
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) url.searchParams.set(name, value)
  }
  return url
}

const get = (url: URL | string, headers: Record<string, string> = {}) =>
  fetch(url, { redirect: 'manual', headers: { accept: 'text/html', ...headers } })

type Answer = Record<string, string> & { keys: { kid: string }[] }

const getJson = async (url: string) => (await (await get(url)).json()) as Answer

/** Goes to the sign-in page as a browser would. */
async function signInForm() {
  const start = await get(authorizeUrl())
  const url = new URL(start.headers.get('location') ?? '', world.publicUrl)
  const cookies = start.headers.getSetCookie()
  const cookie = cookies.map((line) => line.split(';')[0]).join('; ')
  return { url, cookie, cookies }
}

const post = (url: URL, cookie: string, form: Record<string, string>, origin = world.publicUrl) =>
  fetch(url, {
    method: 'POST',
    redirect: 'manual',
    headers: { cookie, origin },
    body: new URLSearchParams(form),
  })

const maya = {
  tenant: 'acme',
  login: 'maya',
  client: 'app' as const,
}

describe('the demo provider', () => {
  it('gives every endpoint under its own mount', async () => {
    const { issuer } = world.provider('globex')
    const metadata = await getJson(`${issuer}/.well-known/openid-configuration`)
    expect(metadata.issuer).toBe(issuer)
    for (const name of ['authorization', 'token', 'end_session']) {
      expect(metadata[`${name}_endpoint`]).toMatch(`${issuer}/`)
    }
    expect(metadata.jwks_uri).toBe(`${issuer}/jwks`)
    const { keys } = await getJson(metadata.jwks_uri ?? '')
    expect(keys).toHaveLength(1)
    expect(keys[0]).not.toHaveProperty('d')
  })

  it('gives one tenant’s keys to no other', async () => {
    const kid = async (slug: string) => {
      const { keys } = await getJson(`${world.provider(slug).issuer}/jwks`)
      return keys[0]?.kid
    }
    expect(await kid('acme')).not.toBe(await kid('globex'))
  })

  it('gives access tokens of one hour, for the tenant, without sid or act', async () => {
    const clientSecret = world.secrets.clientSecrets.acme?.app ?? ''
    const token = await signIn({ publicUrl: world.publicUrl, ...maya, clientSecret })
    const claims = decodeJwt(token)
    expect(decodeProtectedHeader(token)).toMatchObject({ alg: 'ES256', typ: 'at+jwt' })
    expect(claims).toMatchObject({
      iss: `${world.publicUrl}/demo/idp/acme`,
      aud: `${world.publicUrl}/t/acme`,
      sub: 'acme-maya',
      client_id: 'renewal-app',
      preferred_username: 'maya',
    })
    expect((claims.exp ?? 0) - (claims.iat ?? 0)).toBe(3600)
    expect(claims).not.toHaveProperty('sid')
    expect(claims).not.toHaveProperty('act')
  })

  it('lets nobody in whom it does not know, nor a client without its secret', async () => {
    const clientSecret = world.secrets.clientSecrets.acme?.app ?? ''
    const options = { publicUrl: world.publicUrl, ...maya, clientSecret }
    await expect(signIn({ ...options, login: 'mallory' })).rejects.toThrow(/did not sign/)
    await expect(signIn({ ...options, login: 'gus' })).rejects.toThrow(/did not sign/)
    await expect(signIn({ ...options, clientSecret: 'wrong' })).rejects.toThrow()
    const other = world.secrets.clientSecrets.globex?.app ?? ''
    await expect(signIn({ ...options, clientSecret: other })).rejects.toThrow()
    await expect(signIn({ ...options, tenant: 'nowhere' })).rejects.toThrow()
  })

  it.each([
    ['no PKCE', { code_challenge: undefined, code_challenge_method: undefined }],
    ['plain PKCE', { code_challenge_method: 'plain' }],
    ['another audience', { resource: 'https://else.example' }],
    ['the implicit flow', { response_type: 'token' }],
  ])('refuses a request with %s', async (_name, changes) => {
    const good = await get(authorizeUrl())
    expect(good.headers.get('location')).toMatch(/\/interaction\//)
    const answer = await get(authorizeUrl(changes))
    const location = new URL(answer.headers.get('location') ?? '', world.publicUrl)
    expect(location.pathname).toBe('/auth/callback')
    expect(location.searchParams.get('error') ?? location.hash).toMatch(/invalid|unsupported/)
  })

  it.each(['https://evil.example/callback', 'http://127.0.0.1:1/auth/callback', '/auth/callback'])(
    'sends no one to %s',
    async (redirect_uri) => {
      const answer = await get(authorizeUrl({ redirect_uri }))
      expect(answer.status).toBe(400)
      expect(answer.headers.get('location')).toBeNull()
    },
  )

  it('knows a person again until they sign out, in its own path and nowhere else', async () => {
    const jar = new Map<string, string>()
    const browse = async (url: string | URL, form?: Record<string, string>) => {
      const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
      const body = form === undefined ? null : new URLSearchParams(form)
      const method = form === undefined ? 'GET' : 'POST'
      const headers = { cookie, accept: 'text/html' }
      const answer = await fetch(url, { method, headers, body, redirect: 'manual' })
      for (const line of answer.headers.getSetCookie()) {
        expect(line).toMatch(/; path=\/demo\/idp\/acme/i)
        const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
        jar.set(name, value)
      }
      const location = answer.headers.get('location')
      return { answer, next: location === null ? '' : new URL(location, url).href }
    }
    const page = await browse(authorizeUrl())
    const resume = await browse(page.next, { login: 'maya', password: 'maya' })
    expect((await browse(resume.next)).next).toMatch(/\/auth\/callback\?code=/)
    expect((await browse(authorizeUrl())).next).toMatch(/\/auth\/callback\?code=/)

    const home = `${world.publicUrl}/t/acme`
    const out = new URL(`${world.provider('acme').issuer}/session/end`)
    out.searchParams.set('client_id', 'lend-web')
    out.searchParams.set('post_logout_redirect_uri', home)
    const asked = await (await browse(out)).answer.text()
    expect(asked).toContain('Sign out of acme?')
    const xsrf = /name="xsrf" value="([^"]+)"/.exec(asked)?.[1] ?? ''
    const confirm = `${world.provider('acme').issuer}/session/end/confirm`
    expect((await browse(confirm, { xsrf: 'forged', logout: 'yes' })).answer.status).toBe(400)
    expect((await browse(confirm, { xsrf, logout: 'yes' })).next).toBe(home)
    expect((await browse(authorizeUrl())).next).toMatch(/\/interaction\//)
  })

  it('asks before it signs out', async () => {
    const answer = await get(`${world.provider('acme').issuer}/session/end?client_id=lend-web`)
    expect(answer.status).toBe(200)
    expect(await answer.text()).toContain('/demo/idp/acme/session/end/confirm')
  })

  it('takes only its own paths', async () => {
    expect(await (await get(`${world.publicUrl}/demo/idpx`)).text()).toBe('not the demo provider')
    expect((await get(`${world.publicUrl}/demo/idp/nobody/jwks`)).status).toBe(404)
    expect((await get(`${world.publicUrl}/demo/idp`)).status).toBe(404)
    expect((await get(`${world.publicUrl}/demo/idp/acme/nothing`)).status).toBe(404)
  })

  it('had no error of its own in all this', () => {
    expect(world.errors).toEqual([])
  })
})

describe('the sign-in page', () => {
  it('escapes whatever people are called and runs no script', async () => {
    const { url, cookie } = await signInForm()
    const answer = await get(url, { cookie })
    const html = await answer.text()
    expect(html).toContain('Maya Ortiz')
    expect(html).toContain('&lt;script&gt;alert(1)&lt;/script&gt;')
    expect(html).not.toContain('<script')
    expect(html).not.toContain('"><b>')
    const policy = answer.headers.get('content-security-policy') ?? ''
    expect(policy).toContain("default-src 'none'")
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).not.toContain('unsafe')
  })

  it('keeps its cookies to its own path, out of reach of scripts', async () => {
    const { cookies } = await signInForm()
    expect(cookies.length).toBeGreaterThan(0)
    for (const line of cookies) {
      expect(line).toMatch(/path=\/demo\/idp\/acme/i)
      expect(line).toMatch(/httponly/i)
      expect(line).toMatch(/samesite=lax/i)
    }
  })

  it('goes on for the right password and asks again for a wrong one', async () => {
    const { url, cookie } = await signInForm()
    const wrong = await post(url, cookie, { login: 'maya', password: 'gus' })
    expect(wrong.status).toBe(401)
    expect(await wrong.text()).toContain('role="alert"')
    const right = await post(url, cookie, { login: 'maya', password: 'maya' })
    expect(right.status).toBe(303)
    expect(right.headers.get('location')).toMatch(/\/demo\/idp\/acme\/auth\//)
  })

  it('takes no form from another site, nor without its cookie, nor a huge one', async () => {
    const { url, cookie } = await signInForm()
    const form = { login: 'maya', password: 'maya' }
    expect((await post(url, cookie, form, 'https://evil.example')).status).toBe(403)
    expect((await post(url, cookie, form, 'null')).status).toBe(403)
    expect((await post(url, '', form)).status).toBe(400)
    const forged = cookie.replace(/_interaction=[^;]*/, '_interaction=other')
    expect((await post(url, forged, form)).status).toBe(400)
    expect((await post(url, cookie, { ...form, x: 'x'.repeat(5000) })).status).toBe(413)
    expect((await post(url, cookie, form)).status).toBe(303)
  })

  it('is not served to a name that is not ours (DNS rebinding)', async () => {
    const { request } = await import('node:http')
    const asked = (host: string) =>
      new Promise<string>((done, failed) => {
        const path = '/demo/idp/acme/.well-known/openid-configuration'
        request(`${world.publicUrl}${path}`, { headers: { host } }, (res) => {
          let text = ''
          res.setEncoding('utf8')
          res.on('data', (part: string) => {
            text += part
          })
          res.on('end', () => done(`${res.statusCode} ${text}`))
        })
          .on('error', failed)
          .end()
      })
    expect(await asked('evil.example')).toMatch(/^421/)
    expect(await asked('localhost.evil.example:4000')).toMatch(/^421/)
    const ours = await asked('localhost:4000')
    expect(ours).toMatch(/^200/)
    expect(ours).toContain(`${world.publicUrl}/demo/idp/acme/token`)
    expect(ours).not.toContain('localhost:4000')
  })
})
