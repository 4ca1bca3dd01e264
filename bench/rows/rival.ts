import { generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto'
import { drive, jsonPost, type Sent } from '../support/drive.ts'
import type { Peer } from '../support/machine.ts'
import { CONCURRENCY } from '../support/world.ts'

/** The client of better-auth with agent-auth: its people, their hosts and agents, and the four steps as its protocol has them. */
type Key = { readonly privateKey: KeyObject; readonly publicJwk: object }
type Host = { readonly id: string; readonly key: Key; readonly cookie: string }
export type Agent = { readonly id: string; readonly key: Key; readonly host: Host }

const PEOPLE = 16
const API = '/api/auth'
const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')

function newKey(): Key {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  return { privateKey, publicJwk: { ...publicKey.export({ format: 'jwk' }), kid: randomUUID() } }
}

function jwt(type: 'host+jwt' | 'agent+jwt', key: Key, claims: object): string {
  const iat = Math.floor(Date.now() / 1000)
  const all = { ...claims, iat, exp: iat + 60, jti: randomUUID() }
  const signed = `${encoded({ alg: 'EdDSA', typ: type })}.${encoded(all)}`
  return `${signed}.${sign(null, Buffer.from(signed), key.privateKey).toString('base64url')}`
}

async function newHost(peer: Peer, n: number): Promise<Host> {
  const base = String(peer.ready.baseURL)
  const post = (path: string, body: object, cookie?: string) =>
    fetch(`${base}${API}${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        origin: base,
        ...(cookie === undefined ? {} : { cookie }),
      },
      body: JSON.stringify(body),
    })
  const signedUp = await post('/sign-up/email', {
    email: `bench-${n}@bench.example`,
    password: randomUUID(),
    name: `Bench ${n}`,
  })
  const cookie = signedUp.headers
    .getSetCookie()
    .map((line) => line.split(';', 1)[0])
    .join('; ')
  const key = newKey()
  const made = await post('/host/create', { name: 'bench', public_key: key.publicJwk }, cookie)
  const body = (await made.json()) as { hostId?: string; host_id?: string; id?: string }
  const id = body.hostId ?? body.host_id ?? body.id
  if (id === undefined) throw new Error(`no host: ${made.status} ${JSON.stringify(body)}`)
  return { id, key, cookie }
}

export async function newHosts(peer: Peer): Promise<readonly Host[]> {
  const hosts: Host[] = []
  for (let n = 0; n < PEOPLE; n++) hosts.push(await newHost(peer, n))
  return hosts
}

/** New agents that hold nothing, as many as the round needs. */
export async function registerAgents(
  peer: Peer,
  hosts: readonly Host[],
  count: number,
): Promise<readonly Agent[]> {
  const aud = String(peer.ready.baseURL)
  const made = Array.from({ length: count }, (_, i) => ({
    key: newKey(),
    host: hosts[i % hosts.length] as Host,
  }))
  const requests = made.map(({ key, host }) =>
    jsonPost(
      `${API}/agent/register`,
      { name: 'bench', mode: 'delegated' },
      {
        authorization: `Bearer ${jwt('host+jwt', host.key, {
          iss: host.id,
          aud,
          agent_public_key: key.publicJwk,
        })}`,
      },
    ),
  )
  const { bodies } = await drive(aud, CONCURRENCY, requests)
  return made.map((one, i) => {
    const body: { agent_id: string; status: string } = JSON.parse(bodies[i] ?? '')
    if (body.status !== 'active') throw new Error(`the agent is ${body.status}`)
    return { ...one, id: body.agent_id }
  })
}

const agentToken = (peer: Peer, agent: Agent): string =>
  jwt('agent+jwt', agent.key, {
    sub: agent.id,
    iss: agent.host.id,
    aud: String(peer.ready.baseURL),
  })

/** Its steps by name; each makes one request for one agent. */
export const STEPS = {
  request: (peer: Peer, agent: Agent): Sent =>
    jsonPost(
      `${API}/agent/request-capability`,
      { capabilities: [peer.ready.capability], reason: 'To prepare the renewal briefs' },
      { authorization: `Bearer ${agentToken(peer, agent)}` },
    ),
  approve: (peer: Peer, agent: Agent): Sent =>
    jsonPost(
      `${API}/agent/approve-capability`,
      { agent_id: agent.id, action: 'approve' },
      { cookie: agent.host.cookie, origin: String(peer.ready.baseURL) },
    ),
  execute: (peer: Peer, agent: Agent): Sent =>
    jsonPost(
      `${API}/capability/execute`,
      { capability: peer.ready.capability, arguments: {} },
      { authorization: `Bearer ${agentToken(peer, agent)}` },
    ),
  verify: (peer: Peer, agent: Agent): Sent =>
    jsonPost(`${API}/agent/introspect`, { token: agentToken(peer, agent) }),
}
export type Step = keyof typeof STEPS
