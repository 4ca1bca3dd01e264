import { expect, test } from 'vitest'
import { normalPath } from '../../src/gateway/path.ts'

test.each([
  ['/', []],
  ['/accounts', ['accounts']],
  ['/accounts?x=/../y', ['accounts']],
  ['/accounts/', ['accounts', '']],
  ['/accounts/a%20b', ['accounts', 'a b']],
  ['/accounts/%C3%A9', ['accounts', 'é']],
  ['/accounts/100%25', ['accounts', '100%']],
  ['/a/...', ['a', '...']],
  ['/a:b@c,d=1', ['a:b@c,d=1']],
])('%s is taken apart', (target, segments) => {
  expect(normalPath(target)).toEqual({ segments })
})

test.each([
  ['no slash at the start', 'accounts'],
  ['an absolute form', 'http://elsewhere.example/accounts'],
  ['an empty target', ''],
  ['two slashes', '//accounts'],
  ['an empty segment', '/a//b'],
  ['a dot', '/a/./b'],
  ['a dot, encoded', '/a/%2e/b'],
  ['two dots', '/open/../admin'],
  ['two dots at the end', '/open/..'],
  ['two dots, encoded', '/open/%2e%2e/admin'],
  ['two dots, half encoded', '/open/.%2E/admin'],
  ['two dots behind a parameter', '/open/..;/admin'],
  ['a path parameter', '/admin;x=1'],
  ['an encoded slash', '/open%2fadmin'],
  ['an encoded slash, upper case', '/open%2Fadmin'],
  ['an encoded slash, twice', '/open%252fadmin'],
  ['two dots, encoded twice', '/open/%252e%252e/admin'],
  ['a backslash', '/open\\admin'],
  ['an encoded backslash', '/open%5cadmin'],
  ['NUL', '/open%00'],
  ['a line break', '/open%0d%0aX-Identity-Id:%20me'],
  ['a raw control character', '/open\u0001'],
  ['a space, as joined headers have', '/open, /admin'],
  ['a tab', '/open\t'],
  ['a fragment', '/open#/admin'],
  ['half an escape', '/open%2'],
  ['an escape that is none', '/open%zz'],
  ['bytes that are no UTF-8', '/open%ff'],
  ['an overlong slash', '/open%c0%af'],
  ['raw letters beyond ASCII', '/é'],
  ['an invisible character', '/ad%e2%80%8bmin'],
])('%s is refused', (_, target) => {
  expect(normalPath(target)).toBe('hostile')
})

test('what is too long is refused before it is looked at', () => {
  expect(normalPath(`/${'a'.repeat(5000)}`)).toBe('too_long')
  expect(normalPath('/a'.repeat(65))).toBe('too_long')
})
