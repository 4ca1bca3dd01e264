import { type Db, withRead } from '../../db/tx.ts'
import { createProviderKeys } from '../../identity/provider-keys.ts'
import type { Clock } from '../../ports.ts'
import { codeOf, type Finding, finding, well } from './finding.ts'

const ANSWER_MILLIS_MAX = 5000
const PROVIDERS_MAX = 200
const AT_ONCE = 8

type Answer = { readonly status: number; readonly body: unknown }

/** An answer of this deployment's own address. Redirects are not followed: what redirects is not Lend. */
async function askOwn(url: string): Promise<Answer | { readonly code: string }> {
  try {
    const signal = AbortSignal.timeout(ANSWER_MILLIS_MAX)
    const response = await fetch(url, { redirect: 'manual', signal })
    const text = await response.text()
    return { status: response.status, body: jsonIn(text) }
  } catch (error) {
    const slow = error instanceof Error && error.name === 'TimeoutError'
    return { code: slow ? 'no answer within 5 s' : (codeOf(error) ?? 'no reason given') }
  }
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

const member = (body: unknown, name: string): unknown =>
  typeof body === 'object' && body !== null ? Reflect.get(body, name) : undefined

/** What answers at PUBLIC_URL, and whether it is an instance with the same PUBLIC_URL. `tenant`: any that exists. */
export async function publicUrlFindings(
  publicUrl: string,
  tenant: string | null,
): Promise<readonly Finding[]> {
  const ready = await askOwn(`${publicUrl}/readyz`)
  if ('code' in ready)
    return [
      finding(/CERT|SELF_SIGNED|TLS/.test(ready.code) ? 'wrong' : 'warn', 'address', {
        says: `${publicUrl} cannot be reached from here (${ready.code})`,
        mend: 'If an instance runs, look at PUBLIC_URL, its certificate, and the proxy in front.',
      }),
    ]
  const status = member(ready.body, 'status')
  if (typeof status !== 'string')
    return [
      finding('wrong', 'address', {
        says: `at ${publicUrl} something else than Lend answers (status ${ready.status})`,
        mend: 'Mend PUBLIC_URL, or what the proxy in front forwards to.',
      }),
    ]
  const up =
    ready.status === 200
      ? well('address', `${publicUrl} is ready`)
      : finding('wrong', 'address', {
          says: `${publicUrl} is not ready (${status})`,
          mend: 'It is starting or stopping, cannot read the database, or has not the keys that signing keys are sealed with; its log says which.',
        })
  return tenant === null ? [up] : [up, await issuerFinding(publicUrl, tenant)]
}

async function issuerFinding(publicUrl: string, tenant: string): Promise<Finding> {
  const metadata = await askOwn(`${publicUrl}/.well-known/oauth-authorization-server/t/${tenant}`)
  const issuer = 'code' in metadata ? undefined : member(metadata.body, 'issuer')
  const should = `${publicUrl}/t/${tenant}`
  if (issuer === should) return well('issuer', `metadata names ${should}`)
  return finding('wrong', 'issuer', {
    says:
      typeof issuer === 'string'
        ? `metadata names another issuer than ${should}`
        : `no metadata of ${tenant} at its well-known address`,
    mend:
      typeof issuer === 'string'
        ? 'Set the same PUBLIC_URL on every instance, as clients call it.'
        : 'Let the proxy in front forward /.well-known/ as well, to an instance on this database.',
  })
}

type Provider = {
  readonly tenant: string
  readonly issuer: string
  readonly privateNetwork: boolean
}

/** Discovery and keys of every active identity provider, fetched as the server does. */
export async function providerFindings(
  db: Db,
  of: { readonly clock: Clock; readonly publicUrl: string; readonly isUp: boolean },
): Promise<readonly Finding[]> {
  const all = await withRead(
    db,
    'doctor',
    (tx) => tx.sql<Provider>`
      select t.slug as tenant, p.issuer, p.private_network as "privateNetwork"
      from identity_provider p join tenant t on t.id = p.tenant_id
      where p.status = 'active' order by t.slug, p.issuer limit ${PROVIDERS_MAX}`,
  )
  const keys = createProviderKeys(of.clock)
  const findings: Finding[] = []
  const queue = [...all]
  const worker = async () => {
    for (let one = queue.shift(); one !== undefined; one = queue.shift())
      findings.push(await providerFinding(keys, one, of))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  return findings.toSorted((a, b) => a.says.localeCompare(b.says))
}

async function providerFinding(
  keys: ReturnType<typeof createProviderKeys>,
  { tenant, issuer, privateNetwork }: Provider,
  of: { readonly publicUrl: string; readonly isUp: boolean },
): Promise<Finding> {
  // The demo's providers are part of the server.
  if (!of.isUp && issuer.startsWith(`${of.publicUrl}/`))
    return finding('unknown', 'providers', {
      says: `${issuer} of ${tenant} runs with this server, which does not answer`,
      mend: 'Start it and look again.',
    })
  try {
    await keys.probe({ issuer, privateNetwork })
    return well('providers', `${issuer} of ${tenant} answers with its keys`)
  } catch {
    return finding('wrong', 'providers', {
      says: `${issuer} of ${tenant} does not answer with discovery and keys`,
      mend: `Nobody of ${tenant} can sign in through it. Fetch ${issuer}/.well-known/openid-configuration from this machine; its issuer must be the same to the letter, and a private address must be allowed on the provider.`,
    })
  }
}
