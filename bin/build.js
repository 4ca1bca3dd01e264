// Builds dist/ from src/, schema/ and bench/, and the page from web/. Runs in `prepare`, so `npm ci` leaves a server that starts.
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
// `npx lend` in this folder makes npm prepare the package anew each time, while a server may be running from dist/.
if (process.env.npm_command === 'exec' && existsSync(join(root, 'dist', 'web', 'index.html')))
  process.exit(0)
rmSync(join(root, 'dist'), { recursive: true, force: true })
const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
const built = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.build.json'], {
  cwd: root,
  stdio: 'inherit',
})
if (built.status !== 0) process.exit(built.status ?? 1)

const vite = join(root, 'node_modules', 'vite', 'bin', 'vite.js')
const page = spawnSync(
  process.execPath,
  [vite, 'build', '--config', 'web/vite.config.ts', '--logLevel', 'warn'],
  { cwd: root, stdio: 'inherit' },
)
if (page.status !== 0) process.exit(page.status ?? 1)

// `npx lend` in this folder finds this command at once, instead of installing the package from itself into npx's cache.
const bin = join(root, 'node_modules', '.bin')
const link = join(bin, 'lend')
if (existsSync(bin) && process.platform !== 'win32') {
  rmSync(link, { force: true })
  symlinkSync(join('..', '..', 'bin', 'lend.js'), link)
  chmodSync(join(root, 'bin', 'lend.js'), 0o755)
}
