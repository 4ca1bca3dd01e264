import type { Given } from './options.ts'
import { CliProblem } from './run-file.ts'

const LOCAL = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/

/**
 * `{server}/t/{tenant}`: from `--url` with or without the tenant in it, LEND_URL, or this machine. A credential goes over plain
 * http to this machine only.
 */
export function tenantAddress(
  given: Given,
  env: Readonly<Record<string, string | undefined>>,
): string {
  const text = given.text('url') ?? env.LEND_URL ?? 'http://localhost:4000'
  const url = URL.canParse(text) ? new URL(text) : null
  if (url?.protocol !== 'https:' && !(url?.protocol === 'http:' && LOCAL.test(url.hostname)))
    throw new CliProblem('--url must be https, or http on this machine.')
  const [, base, slug] = /^(.*?)(?:\/t\/([^/]+))?\/*$/.exec(url.href) ?? []
  const tenant = given.text('tenant')
  if (slug !== undefined && tenant !== undefined && tenant !== slug)
    throw new CliProblem(`--url names the tenant ${slug} and --tenant ${tenant}: say one of them.`)
  return `${base?.replace(/\/+$/, '')}/t/${slug ?? encodeURIComponent(tenant ?? 'studio')}`
}
