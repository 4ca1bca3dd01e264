import { describe, expect, it } from 'vitest'
import { decide, type Facts, wallsNow } from '../../src/core/decide.ts'
import { ENDS, REASONS, type Reason, rowOf } from '../../src/core/reason.ts'
import { MODES, RISKS, type RuleId } from '../../src/core/vocabulary.ts'

const rule = (id: string) => id as RuleId

/**
 * SPEC section 4, row by row. Each row leaves every later rule broken too, so it passes only if precedence is right:
 * the order is tested, not just the rules.
 */
const TABLE = `
known  ceiling  delegable  user   deny  held  denied  sensitive  ask  allow      risk    mode    -> reason               outcome
no     out      no         lacks  yes   yes   yes     yes        yes  suspended  low     bypass  -> unknown_permission   refused
yes    out      no         lacks  yes   yes   yes     yes        yes  suspended  low     bypass  -> outside_ceiling      refused
yes    in       no         lacks  yes   yes   yes     yes        yes  suspended  low     bypass  -> never_delegable      refused
yes    in       yes        lacks  yes   yes   yes     yes        yes  suspended  low     bypass  -> user_lacks_access    refused
yes    in       yes        has    yes   yes   yes     yes        yes  suspended  low     bypass  -> deny_rule            refused
yes    in       yes        has    no    yes   yes     yes        yes  suspended  low     bypass  -> already_held         granted
yes    in       yes        has    no    no    yes     yes        yes  suspended  low     bypass  -> denied_this_session  refused
yes    in       yes        has    no    no    no      yes        yes  suspended  low     bypass  -> sensitive            asked
yes    in       yes        has    no    no    no      no         yes  suspended  low     bypass  -> ask_rule             asked
yes    in       yes        has    no    no    no      no         no   suspended  low     bypass  -> reconsent            asked
yes    in       yes        has    no    no    no      no         no   active     low     bypass  -> allow_rule           granted
yes    in       yes        has    no    no    no      no         no   none       high    bypass  -> mode_bypass          granted
yes    in       yes        has    no    no    no      no         no   none       low     auto    -> mode_auto            granted
yes    in       yes        has    no    no    no      no         no   none       medium  auto    -> mode_ask             asked
yes    in       yes        has    no    no    no      no         no   none       high    auto    -> mode_ask             asked
yes    in       yes        has    no    no    no      no         no   none       low     ask     -> mode_ask             asked
`

type Cells = Record<string, string>

function rows(table: string): Cells[] {
  const [head = '', ...lines] = table.trim().split('\n')
  const names = head.split(/\s+/).filter((name) => name !== '->')
  return lines.map((line) => {
    const cells = line.split(/\s+/).filter((cell) => cell !== '->')
    return Object.fromEntries(names.map((name, i) => [name, cells[i] ?? '']))
  })
}

const factsOf = (c: Cells): Facts => ({
  permission:
    c.known === 'yes'
      ? { delegable: c.delegable === 'yes', risk: RISKS.find((r) => r === c.risk) ?? 'high' }
      : null,
  inCeiling: c.ceiling === 'in',
  userHasItNow: c.user === 'has',
  rules: {
    ...(c.deny === 'yes' ? { deny: rule('rul_deny') } : {}),
    ...(c.ask === 'yes' ? { ask: rule('rul_ask') } : {}),
    ...(c.allow === 'none'
      ? {}
      : { allow: { id: rule('rul_allow'), suspended: c.allow === 'suspended' } }),
  },
  alreadyHeld: c.held === 'yes',
  deniedThisSession: c.denied === 'yes',
  sensitive: c.sensitive === 'yes',
  mode: MODES.find((m) => m === c.mode) ?? 'ask',
})

describe('the decision, in order', () => {
  for (const row of rows(TABLE)) {
    it(`${row.reason} wins over everything below it (${row.mode}, ${row.risk})`, () => {
      const verdict = decide(factsOf(row))
      expect(verdict.reason).toBe(row.reason)
      expect(verdict.outcome).toBe(row.outcome)
    })
  }
})

/** Every input there is. */
function* everyFacts(): Generator<Facts> {
  const yesNo = [false, true]
  for (const known of yesNo)
    for (const delegable of yesNo)
      for (const risk of RISKS)
        for (const inCeiling of yesNo)
          for (const userHasItNow of yesNo)
            for (const deny of yesNo)
              for (const ask of yesNo)
                for (const allow of ['none', 'active', 'suspended'])
                  for (const alreadyHeld of yesNo)
                    for (const deniedThisSession of yesNo)
                      for (const sensitive of yesNo)
                        for (const mode of MODES)
                          yield {
                            permission: known ? { delegable, risk } : null,
                            inCeiling,
                            userHasItNow,
                            rules: {
                              ...(deny ? { deny: rule('rul_deny') } : {}),
                              ...(ask ? { ask: rule('rul_ask') } : {}),
                              ...(allow === 'none'
                                ? {}
                                : {
                                    allow: {
                                      id: rule('rul_allow'),
                                      suspended: allow === 'suspended',
                                    },
                                  }),
                            },
                            alreadyHeld,
                            deniedThisSession,
                            sensitive,
                            mode,
                          }
}

/** The order of SPEC section 4's table, written down here a second time. */
const ORDER: readonly Reason[] = [
  'unknown_permission',
  'outside_ceiling',
  'never_delegable',
  'user_lacks_access',
  'deny_rule',
  'already_held',
  'denied_this_session',
  'sensitive',
  'ask_rule',
  'reconsent',
  'allow_rule',
  'mode_auto',
  'mode_bypass',
  'mode_ask',
]

/** The same rule said another way: collect every reason that applies, keep the strongest. */
function strongest(f: Facts): Reason {
  const applies = new Set<Reason>(['mode_ask'])
  if (f.permission === null) applies.add('unknown_permission')
  if (!f.inCeiling) applies.add('outside_ceiling')
  if (f.permission?.delegable === false) applies.add('never_delegable')
  if (!f.userHasItNow) applies.add('user_lacks_access')
  if (f.rules.deny) applies.add('deny_rule')
  if (f.alreadyHeld) applies.add('already_held')
  if (f.deniedThisSession) applies.add('denied_this_session')
  if (f.sensitive) applies.add('sensitive')
  if (f.rules.ask) applies.add('ask_rule')
  if (f.rules.allow) applies.add(f.rules.allow.suspended ? 'reconsent' : 'allow_rule')
  if (f.mode === 'auto' && f.permission?.risk === 'low') applies.add('mode_auto')
  if (f.mode === 'bypass') applies.add('mode_bypass')
  const found = ORDER.find((reason) => applies.has(reason))
  if (found === undefined) throw new Error('some reason always applies')
  return found
}

describe('the decision, fully enumerated', () => {
  const all = [...everyFacts()]

  it('agrees with "keep the strongest reason that applies" on every input', () => {
    expect(all.length).toBe(2 * 2 * 3 * 2 * 2 * 2 * 2 * 3 * 2 * 2 * 2 * 3)
    const wrong = all.filter((f) => decide(f).reason !== strongest(f))
    expect(wrong).toEqual([])
  })

  it('reaches every reason', () => {
    const reached = new Set(all.map((f) => decide(f).reason))
    expect([...reached].sort()).toEqual(Object.keys(REASONS).sort())
  })

  it('lists its reasons in the order in which they win', () => {
    expect(Object.keys(REASONS)).toEqual(ORDER)
  })

  it('I2: never grants what is outside the ceiling, not delegable or not the user’s', () => {
    const granted = all.filter((f) => decide(f).outcome === 'granted')
    expect(granted.length).toBeGreaterThan(0)
    for (const f of granted)
      expect([f.inCeiling, f.permission?.delegable, f.userHasItNow]).toEqual([true, true, true])
  })

  it('I8: a sensitive item is never granted without an answer unless it is held already', () => {
    for (const f of all.filter((one) => one.sensitive && !one.alreadyHeld))
      expect(decide(f).outcome).not.toBe('granted')
  })

  it('I10: adding an allow rule never turns a refusal into anything else', () => {
    for (const f of all.filter((one) => one.rules.allow === undefined)) {
      const without = decide(f)
      const withRule = decide({
        ...f,
        rules: { ...f.rules, allow: { id: rule('rul_new'), suspended: false } },
      })
      if (without.outcome === 'refused') expect(withRule).toEqual(without)
    }
  })

  it('a looser mode never turns a refusal into anything else', () => {
    for (const f of all) {
      const verdict = decide({ ...f, mode: 'ask' })
      if (verdict.outcome !== 'refused') continue
      for (const mode of MODES) expect(decide({ ...f, mode })).toEqual(verdict)
    }
  })

  it('adding a deny rule never turns a no into a yes', () => {
    for (const f of all.filter((one) => one.rules.deny === undefined)) {
      const verdict = decide({ ...f, rules: { ...f.rules, deny: rule('rul_new') } })
      expect(verdict.outcome).toBe('refused')
    }
  })

  it('names the rule that decided', () => {
    for (const f of all) {
      const { reason, ruleId } = decide(f)
      const expected = {
        deny_rule: 'rul_deny',
        ask_rule: 'rul_ask',
        reconsent: 'rul_allow',
        allow_rule: 'rul_allow',
      }[reason as string]
      expect(ruleId).toBe(expected)
    }
  })
})

describe('what a yes is checked against again', () => {
  it('is rows 1 to 4, in their order, and nothing else', () => {
    for (const f of everyFacts()) {
      const walls = ORDER.slice(0, 4)
      const strongestWall = strongest(f)
      expect(wallsNow(f)).toBe(walls.includes(strongestWall) ? strongestWall : null)
    }
  })
})

describe('reasons and ends', () => {
  it('every reason and end has an outcome, a retry and a sentence', () => {
    for (const reason of [...Object.keys(REASONS), ...Object.keys(ENDS)]) {
      const row = rowOf(reason as Reason)
      expect(row.says.length).toBeGreaterThan(10)
      expect(['granted', 'refused', 'asked']).toContain(row.outcome)
    }
  })

  it('USER-ASKS 27: the four ends are four different things to the agent', () => {
    const said = Object.values(ENDS).map((end) => end.says)
    expect(new Set(said).size).toBe(4)
    expect(ENDS.expired.retry).toBe('later')
    expect(ENDS.denied_by_user.retry).toBe('never')
  })
})
