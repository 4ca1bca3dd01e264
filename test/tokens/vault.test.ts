import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { BadSetting, configFrom } from '../../src/config.ts'
import { createVault, openVault, sharedVault } from '../../src/vault.ts'

const key = (fill: number) => Buffer.alloc(32, fill).toString('base64url')
const OLD = { kid: 'old', key: key(1) }
const NEW = { kid: 'new', key: key(2) }

test('what is sealed opens for the same context, and nothing changed does', () => {
  const vault = createVault([OLD])
  const sealed = vault.seal('Bearer ö', 'row 1')
  expect(sealed).not.toContain('Bearer')
  expect(vault.seal('Bearer ö', 'row 1')).not.toBe(sealed)
  expect(vault.open(sealed, 'row 1')).toBe('Bearer ö')
  expect(vault.open(sealed, 'row 2')).toBeNull()
  const [version, kid, nonce, rest = ''] = sealed.split('.')
  const flipped = (text: string) => (text.startsWith('A') ? 'B' : 'A') + text.slice(1)
  for (const bad of [
    '',
    'v1.old..',
    `v2.${kid}.${nonce}.${rest}`,
    `${version}.other.${nonce}.${rest}`,
    `${version}.${kid}.${flipped(nonce ?? '')}.${rest}`,
    `${version}.${kid}.${nonce}.${flipped(rest)}`,
    `${version}.${kid}.${nonce}.${rest.slice(0, -8)}`,
  ])
    expect(vault.open(bad, 'row 1')).toBeNull()
})

test('a rotated key still opens what it sealed; a key that is gone does not', () => {
  const sealed = createVault([OLD]).seal('secret', 'row')
  const rotated = createVault([NEW, OLD])
  expect(rotated.kid).toBe('new')
  expect(rotated.open(sealed, 'row')).toBe('secret')
  expect(rotated.seal('secret', 'row')).toMatch(/^v1\.new\./)
  expect(createVault([NEW]).open(sealed, 'row')).toBeNull()
})

test('the embedded default is a key in a file that only its owner reads, the same at the next start', () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'lend-vault-'))
  try {
    const own = { secretKeys: null, dataDir, databaseUrl: null }
    const sealed = openVault(own).seal('secret', 'row')
    const file = join(dataDir, 'secret-key.json')
    expect(statSync(file).mode & 0o077).toBe(0)
    expect(readFileSync(file, 'utf8')).not.toContain('secret"')
    expect(openVault(own).open(sealed, 'row')).toBe('secret')
    // The setting seals from now on; what the file's key sealed still opens, until the file is gone.
    const named = openVault({ ...own, secretKeys: [NEW] })
    expect([named.kid, named.open(sealed, 'row')]).toEqual(['new', 'secret'])
    rmSync(file)
    expect(openVault({ ...own, secretKeys: [NEW] }).open(sealed, 'row')).toBeNull()
  } finally {
    rmSync(dataDir, { recursive: true })
  }
})

test.each([
  ['the embedded database, a key of its own', null, null, true],
  ['a server, a key of its own', null, 'postgres://x/y', false],
  ['the embedded database, named keys', [NEW], null, true],
  ['a server, named keys', [NEW], 'postgres://x/y', true],
])('whether all who need it have the key: %s', (_, secretKeys, databaseUrl, isShared) => {
  const place = { secretKeys, databaseUrl, dataDir: null }
  expect(openVault(place).isShared).toBe(isShared)
  expect(sharedVault(place) !== undefined).toBe(isShared)
})

test('LEND_SECRET_KEYS names keys of 32 bytes, each once; a wrong one is not shown', () => {
  const of = (text: string) => configFrom({ LEND_SECRET_KEYS: text }, '/').secretKeys
  expect(of('')).toBeNull()
  expect(of(`new:${NEW.key}, old:${OLD.key}`)).toEqual([NEW, OLD])
  for (const bad of ['x', 'new:short', NEW.key, `a:${NEW.key},a:${OLD.key}`, `:${NEW.key}`]) {
    expect(() => of(bad)).toThrow(BadSetting)
    expect(() => of(bad)).toThrow(/^LEND_SECRET_KEYS must be/)
    if (bad.length > 10) expect(() => of(bad)).not.toThrow(bad)
  }
})
