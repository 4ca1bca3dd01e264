import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { strictly } from '../../src/cli/options.ts'
import { template } from '../../src/cli/template.ts'
import { TEMPLATE_ARGS } from '../../src/cli/template-args.ts'
import { createPeople, type People, tokenOf } from '../support/people.ts'
import type { Login } from '../support/world-seed.ts'

/** `lend template`: templates as files, over the public door. */
let people: People
let folder: string
beforeEach(async () => {
  people = await createPeople()
  folder = mkdtempSync(join(tmpdir(), 'template-'))
})
afterEach(async () => {
  rmSync(folder, { recursive: true })
  expect(people.bugs).toEqual([])
  await people.world.close()
})

async function lend(args: readonly string[], as: Login = 'bo', env = {}) {
  const lines: string[] = []
  const fetcher = (url: string, init: RequestInit) => people.fetch(new URL(url).pathname, init)
  const given = strictly(args, TEMPLATE_ARGS)
  const code = await template(
    given,
    { LEND_TOKEN: tokenOf(as), ...env },
    (l) => lines.push(l),
    fetcher,
  )
  return { code, text: lines.join('\n') }
}
const file = (value: unknown): string => {
  const path = join(folder, 'template.json')
  writeFileSync(path, typeof value === 'string' ? value : JSON.stringify(value))
  return path
}
const has = [
  { permission: 'accounts:read' },
  { permission: 'dashboard:view', resource: 'dashboard/*' },
]
const FILE = {
  name: 'from-file',
  title: 'From a file',
  purpose: 'Kept with the code.',
  ceiling: [
    { permission: 'accounts:read' },
    { permission: 'dashboard:view', resource: 'dashboard/*' },
  ],
  sensitive: [{ permission: 'dashboard:view', resource: 'dashboard/board' }],
  modes: ['ask', 'auto'],
  sponsor: 'bo',
  examples: [
    {
      user_has: has,
      mode: 'auto',
      item: { permission: 'accounts:read' },
      expect: 'granted mode_auto',
    },
    {
      user_has: has,
      item: { permission: 'dashboard:view', resource: 'dashboard/board' },
      expect: 'asked sensitive',
    },
    {
      user_has: has,
      item: { permission: 'email:send', resource: 'domain/a.example' },
      expect: 'refused outside_ceiling',
    },
    { user_has: [], item: { permission: 'accounts:read' }, expect: 'refused' },
  ],
}
const at = (name: string) =>
  people.world.rows<{ version: number; status: string; revision: number }>(
    `select v.version, v.status, v.revision from template_version v join template t on t.id = v.template_id
     where t.name = $1 order by 1`,
    [name],
  )

test('what is exported is good, differs in nothing, and is a file again', async () => {
  const { code, text } = await lend(['export', 'renewal-briefs'])
  expect(code).toBe(0)
  expect(JSON.parse(text)).toMatchObject({
    name: 'renewal-briefs',
    sponsor: 'rhea',
    visibility: 'public',
  })
  const path = file(text)
  expect((await lend(['validate', path])).code).toBe(0)
  const diff = await lend(['diff', path])
  expect(diff).toEqual({
    code: 0,
    text: '### renewal-briefs: allows nothing new against renewal-briefs@3',
  })
})

test('examples are checked by the decision, and each that differs is named', async () => {
  expect(await lend(['validate', file(FILE)])).toEqual({
    code: 0,
    text: 'from-file: no problems, 4 examples as expected',
  })
  const [first, ...rest] = FILE.examples
  const wrong = [
    { ...first, expect: 'refused outside_ceiling' },
    ...rest,
    { ...first, item: { permission: 'dashboard:view' } },
  ]
  const { code, text } = await lend(['validate', file({ ...FILE, examples: wrong })])
  expect(code).toBe(1)
  expect(text.split('\n')).toEqual([
    '/examples/0/expect example_differs: expected refused outside_ceiling, but it is granted mode_auto',
    expect.stringContaining('/examples/4/item example_invalid: dashboard:view needs a resource'),
  ])
  expect(await at('from-file')).toEqual([])
})

test('a diff that widens says so in its exit code, with the risk of each item', async () => {
  const { text } = await lend(['export', 'renewal-briefs'])
  const known = JSON.parse(text)
  const path = file({
    ...known,
    ceiling: [...known.ceiling.slice(1), { permission: 'email-templates:write' }],
  })
  expect(await lend(['diff', path])).toEqual({
    code: 2,
    text: [
      '### renewal-briefs: allows more than renewal-briefs@3',
      '',
      '**Items**',
      '- **removed** `accounts:read` (low risk, gateway)',
      '- **added** `email-templates:write` (medium risk, gateway)',
    ].join('\n'),
  })
})

test('why the job needs an item goes with the file: applied, exported, and in the diff', async () => {
  const justification = 'The brief names each account.\nNothing else tells which.'
  const [read, ...rest] = FILE.ceiling
  const path = file({ ...FILE, ceiling: [{ ...read, justification }, ...rest] })
  expect((await lend(['diff', path])).text.split('\n')).toEqual(
    expect.arrayContaining([
      '- **added** `accounts:read` (low risk, gateway)',
      '  > The brief names each account.',
      '  > Nothing else tells which.',
    ]),
  )
  await lend(['apply', path])
  const exported = JSON.parse((await lend(['export', 'from-file'])).text)
  expect(exported.ceiling).toEqual([{ ...read, justification }, ...rest])
})

test('is applied as a draft, and over an open one only when its revision is named', async () => {
  expect((await lend(['apply', file(FILE)])).text).toBe('from-file@1 draft, revision 1')
  const path = file({ ...FILE, purpose: 'Other' })
  await expect(lend(['apply', path])).rejects.toThrow('--over 1')
  expect((await lend(['apply', path, '--over', '1'])).text).toBe('from-file@1 draft, revision 2')
  await expect(lend(['apply', path, '--over', '1'])).rejects.toThrow('Somebody else has changed it')
  expect((await lend(['apply', path, '--over', '2', '--submit'])).text).toContain('in_review')
  expect(await at('from-file')).toEqual([{ version: 1, status: 'in_review', revision: 3 }])
  // A file with problems is not applied at all.
  const bad = file({
    ...FILE,
    name: 'bad-file',
    ceiling: [{ permission: 'billing:admin' }],
    examples: [],
  })
  const refused = await lend(['apply', bad])
  expect([refused.code, refused.text]).toEqual([
    1,
    '/ceiling/0/permission never_delegable: no agent can ever hold billing:admin',
  ])
  expect(await at('bad-file')).toEqual([])
})

test('what is wrong with a file or a setting is one sentence', async () => {
  await expect(lend(['validate', join(folder, 'none')])).rejects.toThrow('cannot be read')
  await expect(lend(['validate', file('{')])).rejects.toThrow('is not JSON')
  await expect(lend(['validate', file({ ...FILE, scope: 1 })])).rejects.toThrow('scope')
  await expect(lend(['validate', file(FILE)], 'bo', { LEND_TOKEN: '' })).rejects.toThrow(
    'LEND_TOKEN',
  )
  await expect(lend(['publish', 'x'])).rejects.toThrow('There is no action')
  await expect(lend(['validate', file(FILE)], 'rhea')).resolves.toMatchObject({ code: 0 })
  await expect(lend(['apply', file(FILE)], 'rhea')).rejects.toThrow('staff role builder')
})

test('the token is never sent in the clear over a network', async () => {
  for (const url of ['http://lend.example', 'ftp://localhost', 'nonsense'])
    await expect(lend(['export', 'x', '--url', url])).rejects.toThrow('must be https')
})
