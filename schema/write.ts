import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { emitted } from './emit.ts'

// `npm run schema`: writes schema/json/ anew from the contracts.
const folder = join(import.meta.dirname, 'json')
rmSync(folder, { recursive: true, force: true })
for (const [name, text] of emitted()) {
  const file = join(folder, name)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}
