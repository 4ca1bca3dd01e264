import { listUpstreamTools, UpstreamFailed } from '../tool-gateway/upstream.ts'
import { CliProblem } from './run-file.ts'

const BOUNDS = { timeoutMillis: 15_000, maxBytes: 4 * 1024 * 1024 }

/**
 * What an MCP server lists now, asked by the client and under the guards of the tool gateway: https and public addresses only,
 * unless the address is said to be in a private network; no redirects; bounded. `authorization` is sent as it is. Throws
 * `CliProblem`.
 */
export async function toolsAt(
  url: string,
  how: { readonly privateNetwork: boolean; readonly authorization: string | undefined },
): Promise<unknown> {
  if (!URL.canParse(url)) throw new CliProblem('--mcp must be a URL or a file.')
  const value = how.authorization
  const credential = value ? { header: 'authorization', value } : null
  const upstream = { url, privateNetwork: how.privateNetwork, credential }
  try {
    return await listUpstreamTools(upstream, BOUNDS, new AbortController().signal)
  } catch (error) {
    if (!(error instanceof UpstreamFailed)) throw error
    const hint =
      error.code === 'upstream_not_allowed'
        ? ' Only https at a public address is; say --private-network if it is in yours.'
        : error.code === 'upstream_refused'
          ? ' Put what it asks for in LEND_MCP_AUTHORIZATION.'
          : ''
    const says =
      error.code === 'upstream_refused' ? 'The tool server wants a credential.' : error.message
    throw new CliProblem(`${url}: ${says}${hint}`)
  }
}
