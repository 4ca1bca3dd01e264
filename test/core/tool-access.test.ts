import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decideCall, mayCall, type ToolRule } from '../../src/core/tool-access.ts'
import type { GrantId, Item } from '../../src/core/vocabulary.ts'

const SEND: ToolRule = {
  permission: 'email:send',
  access: 'write',
  tools: ['send_email', 'send_all'],
  destination: '/to',
}
const READ: ToolRule = {
  permission: 'email:read',
  access: 'read',
  tools: ['search', 'send_all'],
  destination: null,
}
const RULES = [SEND, READ]

const grant = (item: Item, more: { readOnly?: boolean } = {}) => ({
  id: `grt_${item.permission}_${item.resource ?? ''}` as GrantId,
  item,
  readOnly: more.readOnly ?? false,
})
const domain = (name: string): Item => ({ permission: 'email:send', resource: `domain/${name}` })
const call = (tool: string, args: unknown = {}) => ({ tool, args })

describe('a call of a tool', () => {
  test('is refused with every item that is missing, and no other', () => {
    const held = [grant(domain('x.example'))]
    const args = { to: ['a@x.example', 'b@y.example', 'c@z.example'] }
    expect(decideCall(RULES, held, call('send_email', args))).toMatchObject({
      allowed: false,
      reason: 'not_granted',
      ask: [domain('y.example'), domain('z.example')],
    })
  })

  test('is allowed when every destination is covered, by one grant or several', () => {
    const held = [grant(domain('x.example')), grant(domain('y.example'))]
    const args = { to: 'a@x.example, b@y.example' }
    expect(decideCall(RULES, held, call('send_email', args))).toMatchObject({
      allowed: true,
      resources: ['domain/x.example', 'domain/y.example'],
      grants: held.map((one) => one.id),
    })
    expect(decideCall(RULES, [grant(domain('*'))], call('send_email', args))).toMatchObject({
      allowed: true,
    })
  })

  test('to a domain is not to its subdomains', () => {
    const held = [grant(domain('x.example'))]
    for (const to of ['a@sub.x.example', 'a@x.example.evil.example', 'a@evilx.example'])
      expect(decideCall(RULES, held, call('send_email', { to }))).toMatchObject({ allowed: false })
  })

  test('by a grant without a destination opens nothing that goes somewhere', () => {
    const held = [grant({ permission: 'email:send' })]
    expect(mayCall(RULES, held, 'send_email')).toBe(false)
    expect(decideCall(RULES, held, call('send_email', { to: 'a@x.example' }))).toMatchObject({
      allowed: false,
    })
  })

  test('that writes is not opened by what is lent for reading only', () => {
    const held = [grant(domain('*'), { readOnly: true })]
    expect(mayCall(RULES, held, 'send_email')).toBe(false)
    const reads = [grant({ permission: 'email:read' }, { readOnly: true })]
    expect(decideCall(RULES, reads, call('search'))).toMatchObject({ allowed: true })
  })

  test('whose destination cannot be read names the argument, and nothing to ask for', () => {
    expect(decideCall(RULES, [grant(domain('*'))], call('send_email', {}))).toMatchObject({
      allowed: false,
      reason: 'destination_unclear',
      problem: { path: 'to', message: 'is required' },
      ask: [],
    })
  })

  test('that two permissions name is allowed by either, whole', () => {
    const held = [grant({ permission: 'email:read' })]
    expect(decideCall(RULES, held, call('send_all', {}))).toMatchObject({
      allowed: true,
      permission: 'email:read',
    })
  })

  test.each(['', 'Send_email', 'send_email ', 'toString', '__proto__', 'mail/send_email'])(
    'that no permission names is nobody’s: %j',
    (tool) => {
      const held = [grant(domain('*')), grant({ permission: 'email:read' })]
      expect(decideCall(RULES, held, call(tool))).toBeNull()
      expect(mayCall(RULES, held, tool)).toBe(false)
    },
  )

  test('is listed exactly when some call of it is allowed, whatever is held', () => {
    const DOMAINS = ['x.example', 'y.example', 'z.example']
    const item = fc.oneof(
      fc.constantFrom<Item>({ permission: 'email:read' }, { permission: 'email:send' }),
      fc.constantFrom(...DOMAINS, '*').map(domain),
      fc.constant<Item>({ permission: 'email:send', resource: 'channel/sales' }),
      fc.constant<Item>({ permission: 'other:thing', resource: 'domain/x.example' }),
    )
    const held = fc.array(
      fc.record({ item, readOnly: fc.boolean() }).map((g) => grant(g.item, g)),
      { maxLength: 5 },
    )
    fc.assert(
      fc.property(
        held,
        fc.constantFrom('send_email', 'search', 'send_all', 'other'),
        (grants, tool) => {
          const some = [{}, ...DOMAINS.map((one) => ({ to: `a@${one}` }))].some(
            (args) => decideCall(RULES, grants, call(tool, args))?.allowed === true,
          )
          expect(mayCall(RULES, grants, tool)).toBe(some)
        },
      ),
    )
  })
})
