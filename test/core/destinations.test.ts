import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { destinationsIn } from '../../src/core/destinations.ts'

const to = (value: unknown) => destinationsIn({ to: value }, '/to')
const domains = (value: unknown) => {
  const found = to(value)
  return found.ok ? found.resources.map((one) => one.replace('domain/', '')) : found.why
}

/** What a call says, and every domain that it goes to. */
const READ: readonly (readonly [string, unknown, readonly string[]])[] = [
  ['a plain address', 'ana@x.example', ['x.example']],
  ['capitals and a trailing dot', 'Ana@X.Example.', ['x.example']],
  ['a display name', 'Ana <ana@x.example>', ['x.example']],
  ['a quoted display name', '"Ortiz, Ana" <ana@x.example>', ['x.example']],
  ['an address as its own display name', '"ana@x.example" <ana@x.example>', ['x.example']],
  ['only brackets', '<ana@x.example>', ['x.example']],
  ['several in one text', 'ana@x.example, Bo <bo@y.example>', ['x.example', 'y.example']],
  ['semicolons between them', 'ana@x.example; bo@y.example;', ['x.example', 'y.example']],
  ['a list', ['ana@x.example', 'Bo <bo@y.example>'], ['x.example', 'y.example']],
  ['a list whose entries hold several', ['a@x.example,b@y.example'], ['x.example', 'y.example']],
  ['the same domain twice', ['a@x.example', 'b@X.EXAMPLE'], ['x.example']],
  ['a group', 'Team: ana@x.example, bo@y.example;', ['x.example', 'y.example']],
  ['a group and more', 'Team: ana@x.example;, c@z.example', ['x.example', 'z.example']],
  ['comments', '(at work) ana@x.example (our customer)', ['x.example']],
  ['a nested comment', 'ana@x.example (one (in another))', ['x.example']],
  ['a quoted local part', '"ana ortiz"@x.example', ['x.example']],
  ['a plus and an apostrophe', "ana+q3.o'neil@x.example", ['x.example']],
  ['letters of another script before the @', 'josé@x.example', ['x.example']],
  ['an international domain', 'ana@bücher.example', ['xn--bcher-kva.example']],
  ['the same as A-label', 'ana@xn--bcher-kva.example', ['xn--bcher-kva.example']],
  ['an ideographic full stop', 'ana@x。example', ['x.example']],
  ['decomposed letters', 'ana@bu\u0308cher.example', ['xn--bcher-kva.example']],
  ['a web address', 'https://Hooks.X.example:8443/in?a=b@c', ['hooks.x.example']],
  ['a bare domain', 'x.example', ['x.example']],
]

/** What no two readers are sure to read alike. */
const UNCLEAR: readonly (readonly [string, unknown])[] = [
  ['nothing', ''],
  ['a space', ' '],
  ['no text', 7],
  ['null', null],
  ['an object', { email: 'ana@x.example' }],
  ['an empty list', []],
  ['a list in a list', [['ana@x.example']]],
  ['one bad entry among good ones', ['ana@x.example', 'bo']],
  ['a word', 'ana at x'],
  ['two @', 'ana@evil.example@x.example'],
  ['another address in the display name', '"boss@x.example" <ana@evil.example>'],
  ['another address before the brackets', 'boss@x.example <ana@evil.example>'],
  ['two brackets', '<ana@x.example> <ana@evil.example>'],
  ['something after the brackets', 'Ana <ana@x.example> ana@evil.example'],
  ['brackets in brackets', '<<ana@x.example>'],
  ['no end of the brackets', 'Ana <ana@x.example'],
  ['an address in a comment', 'ana@x.example (ana@evil.example)'],
  ['a comment that does not end', 'ana@x.example (ana@evil.example'],
  ['a comment before the @', 'ana (at work) @x.example'],
  ['a comment inside the domain', 'ana@x.(evil)example'],
  ['a quote that does not end', '"ana@x.example'],
  ['an @ in a quoted local part', '"ana@evil.example"@x.example'],
  ['a comma in a quoted local part', '"a@evil.example,"@x.example'],
  ['an escaped quote', '"\\"ana@evil.example\\" "@x.example'],
  ['a source route', '<@evil.example:ana@x.example>'],
  ['a percent route', 'ana%evil.example@x.example'],
  ['a bang path', 'evil.example!ana@x.example'],
  ['a domain literal', 'ana@[10.0.0.5]'],
  ['an IPv4 address', 'ana@10.0.0.5'],
  ['an IPv4 address in octal', 'ana@0177.1'],
  ['a space between addresses', 'ana@x.example bo@evil.example'],
  ['a line break (a header more)', 'ana@x.example\r\nBcc: bo@evil.example'],
  ['a line separator', 'ana@x.example\u2028bo@evil.example'],
  ['a tab', 'ana@x.example\t'],
  ['a null', 'ana@x.example\0.evil.example'],
  ['zero width', 'ana@x\u200b.example'],
  ['right to left', 'ana@\u202eelpmaxe.x'],
  ['a full-width @', 'ana＠evil.example, ana@x.example'],
  ['a full-width comma', 'ana@x.example，bo@evil.example'],
  ['a small commercial at', 'ana﹫evil.example'],
  ['a letter that folds to a slash', 'https://x.example℀evil.example/'],
  ['a pattern', 'ana@*'],
  ['a pattern as domain', '*'],
  ['a domain with a path', 'x.example/evil.example'],
  ['an empty group', 'undisclosed-recipients:;'],
  ['a group without a name', ':ana@x.example;'],
  ['a scheme that is not the web', 'ftp://x.example/'],
  ['a web address with a person in it', 'https://x.example@evil.example/'],
  ['a web address with a backslash', 'https://evil.example\\@x.example/'],
  ['a web address of a number', 'https://2130706433/'],
  ['a web address of IPv6', 'https://[::1]/'],
  ['a web address with a percent sign', 'https://x%2eexample/'],
  ['mailto with more', 'mailto:ana@x.example?cc=bo@evil.example'],
  ['a JSON list as text', '["ana@x.example"]'],
  ['too long', `${'a'.repeat(10_001)}@x.example`],
  ['too many', Array.from({ length: 101 }, () => 'ana@x.example')],
]

describe('destinations of a call', () => {
  test.each(READ)('%s', (_, value, expected) => {
    expect(domains(value)).toEqual(expected)
  })

  test.each(UNCLEAR)('refused: %s', (_, value) => {
    expect(to(value).ok, JSON.stringify(to(value))).toBe(false)
  })

  test('the pointer may lead deeper, and names what it did not find', () => {
    const args = { message: { 'a/b': [{ to: 'ana@x.example' }] } }
    expect(destinationsIn(args, '/message/a~1b/0/to')).toEqual({
      ok: true,
      resources: ['domain/x.example'],
    })
    expect(destinationsIn(args, '/message/to')).toMatchObject({ ok: false, path: 'message.to' })
  })

  test.each([
    ['missing', {}],
    ['inherited', Object.create({ to: 'ana@x.example' })],
    ['no object', 'ana@x.example'],
    ['a twin in capitals', { to: 'ana@x.example', To: 'ana@evil.example' }],
    ['a twin in full-width letters', { to: 'ana@x.example', ｔｏ: 'ana@evil.example' }],
  ])('an argument that is %s is refused', (_, args) => {
    expect(destinationsIn(args, '/to').ok).toBe(false)
  })

  test('whatever the text, a domain that a simple reader finds is among those that must be covered', () => {
    const piece = fc.constantFrom(
      ...[
        'ana',
        '@',
        'x.example',
        'evil.example',
        '<',
        '>',
        '"',
        '(',
        ')',
        ',',
        ';',
        ':',
        ' ',
        '\\',
      ],
      ...['[', ']', '%', '＠', '。', '\n', '.', '!', 'Team', '@x.example', 'b@evil.example'],
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 14 }), (pieces) => {
        const text = pieces.join('')
        const found = to(text)
        if (!found.ok) return
        for (const [, domain = ''] of text.replaceAll('。', '.').matchAll(/@([A-Za-z.]+)/g))
          expect(found.resources).toContain(`domain/${domain.toLowerCase().replace(/\.$/, '')}`)
      }),
      { numRuns: 20_000 },
    )
  })
})
