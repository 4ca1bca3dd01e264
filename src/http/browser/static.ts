import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { getMimeType } from 'hono/utils/mime'
import { messagePage } from './pages.ts'

/** The built page: `dist/web`, found from src/ and from dist/src/. Null when it has not been built. */
function folderOf(): string | null {
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'package.json')) && folder !== dirname(folder))
    folder = dirname(folder)
  const web = join(folder, 'dist', 'web')
  return existsSync(join(web, 'index.html')) ? web : null
}

type File = { readonly body: Buffer; readonly type: string }

function filesIn(folder: string, prefix = ''): Map<string, File> {
  const files = new Map<string, File>()
  for (const entry of readdirSync(join(folder, prefix), { withFileTypes: true })) {
    const name = `${prefix}/${entry.name}`
    if (entry.isDirectory()) for (const [key, file] of filesIn(folder, name)) files.set(key, file)
    else
      files.set(name, {
        body: readFileSync(join(folder, name)),
        type: getMimeType(name) ?? 'application/octet-stream',
      })
  }
  return files
}

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

const SECURITY = {
  'content-security-policy': POLICY,
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'cross-origin-opener-policy': 'same-origin',
  'permissions-policy': 'camera=(), microphone=(), geolocation=()',
}

/**
 * Serves the web page from memory: a few hundred kilobytes, read once. `asset` answers a built file by its path, `page` the
 * one page behind every address of the app. No address outside the built folder can be named, since only what was read is
 * served.
 */
export function createStatic(): { asset: (path: string) => Response | null; page: () => Response } {
  const folder = folderOf()
  const files = folder === null ? new Map<string, File>() : filesIn(folder)
  const answer = (file: File, cache: string) =>
    new Response(new Uint8Array(file.body), {
      headers: { ...SECURITY, 'content-type': file.type, 'cache-control': cache },
    })
  return {
    asset: (path) => {
      const file = files.get(path)
      if (file === undefined || path === '/index.html') return null
      // Names of built files carry a hash of what is in them.
      const hashed = path.startsWith('/assets/')
      return answer(file, hashed ? 'public, max-age=31536000, immutable' : 'no-cache')
    },
    page: () => {
      const index = files.get('/index.html')
      return index === undefined
        ? messagePage(404, 'The web page has not been built', 'Run: npm run build')
        : answer(index, 'no-cache')
    },
  }
}
