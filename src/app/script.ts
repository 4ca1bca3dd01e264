/**
 * What the scripted model does next, from what it has been told and what the tools have really answered. It plays the
 * renewal-brief job: denied something, it does without and says so. Pure: the same transcript gives the same step.
 */
export type Told =
  | { readonly from: 'user'; readonly text: string }
  | { readonly from: 'model'; readonly text: string }
  | { readonly from: 'tool'; readonly tool: string; readonly args: Args; readonly result: Args }

type Args = Readonly<Record<string, unknown>>
export type NextStep = {
  readonly text: string
  readonly call?: { readonly tool: string; readonly args: Args }
}

const WAIT_SECONDS = 25
/** A question that nobody answers is asked after this often; then the work goes on without. */
const WAITS_MAX = 240

type Item = { readonly permission: string; readonly resource?: string }
type Outcome = Item & {
  readonly outcome: string
  readonly reason: string
  readonly message: string
}

const ROWS: Item = { permission: 'accounts.rows:my_region' }
const ACCOUNTS: Item = { permission: 'accounts:read' }
const DASHBOARD: Item = { permission: 'dashboard:view', resource: 'dashboard/q3-pipeline' }
const TEMPLATES: Item = { permission: 'email-templates:write' }
const PRICING: Item = { permission: 'contracts.fields:pricing' }

const list = <T>(value: unknown): readonly T[] => (Array.isArray(value) ? value : [])

/** The last word on an item: of all answers since the last user message or before, the newest. */
function standing(told: readonly Told[], item: Item): Outcome | undefined {
  for (const one of [...told].reverse()) {
    if (one.from !== 'tool' || one.tool !== 'iam_request_access') continue
    const found = list<Outcome>(one.result.items).find(
      (i) => i.permission === item.permission && i.resource === item.resource,
    )
    if (found) return found
  }
  return undefined
}

const called = (told: readonly Told[], tool: string) =>
  told.flatMap((one) => (one.from === 'tool' && one.tool === tool ? [one.result] : []))

const ask = (items: readonly Item[], reason: string, text = ''): NextStep => ({
  text,
  call: { tool: 'iam_request_access', args: { items, reason, wait_seconds: WAIT_SECONDS } },
})

/** Asks for what has not been asked, waits for what is pending; null when every item has its end. */
function settle(
  told: readonly Told[],
  items: readonly Item[],
  reason: string,
  text: string,
): NextStep | null {
  const outcomes = items.map((item) => standing(told, item))
  if (outcomes.every((o) => o === undefined)) return ask(items, reason, text)
  const waits = called(told, 'iam_request_access').length
  if (outcomes.some((o) => o?.outcome === 'pending') && waits < WAITS_MAX) return ask(items, reason)
  return null
}

const has = (told: readonly Told[], item: Item): boolean =>
  standing(told, item)?.outcome === 'granted'

/** Why an item was not given, in words for the person. */
function without(told: readonly Told[], item: Item, what: string): string {
  const found = standing(told, item)
  if (found === undefined || found.outcome === 'granted') return ''
  const why =
    {
      denied_by_user: 'you said no',
      denied_this_session: 'you said no earlier',
      deny_rule: 'a rule of yours refuses it',
      user_lacks_access: 'you do not have it yourself',
      outside_ceiling: 'this kind of agent may never ask for it',
      expired: 'nobody answered in time',
      cancelled: 'the question was withdrawn',
    }[found.reason] ?? 'it was not given'
  return ` I went without ${what}: ${why}.`
}

type Account = { readonly id: string; readonly name: string; readonly renewal_in_days?: number }

const renewals = (told: readonly Told[]): readonly Account[] =>
  list<Account>(called(told, 'list_accounts').at(-1)?.items)
    .filter((a) => (a.renewal_in_days ?? Number.POSITIVE_INFINITY) <= 90)
    .slice(0, 5)

/** The root: finds the renewals, looks at the pipeline, starts a drafter, says what came of it. */
export function renewalBriefs(told: readonly Told[]): NextStep {
  const first = settle(
    told,
    [ACCOUNTS, ROWS, DASHBOARD],
    'To find this quarter’s renewals and see where they stand in the pipeline.',
    'I start with no access. I need three things to find this quarter’s renewals, so I am asking you.',
  )
  if (first) return first
  if (has(told, ACCOUNTS) && called(told, 'list_accounts').length === 0)
    return { text: '', call: { tool: 'list_accounts', args: {} } }
  if (has(told, DASHBOARD) && called(told, 'open_dashboard').length === 0)
    return { text: '', call: { tool: 'open_dashboard', args: { id: 'q3-pipeline' } } }
  const found = renewals(told)
  const names = found.map((a) => a.name).join(', ')
  if (found.length > 0 && called(told, 'iam_start_subagent').length === 0)
    return {
      text: `I found ${found.length} renewals in the next 90 days: ${names}. A drafter that can only read what I hold will prepare the emails.`,
      call: {
        tool: 'iam_start_subagent',
        args: {
          template: 'email-drafter',
          read_only: true,
          task: `Draft a renewal email for ${names}.`,
        },
      },
    }
  return followUp(told) ?? { text: summary(told, found) }
}

function summary(told: readonly Told[], found: readonly Account[]): string {
  const gaps = [
    without(told, ACCOUNTS, 'the accounts'),
    without(told, ROWS, 'your region’s accounts'),
    without(told, DASHBOARD, 'the pipeline dashboard'),
  ].join('')
  const drafter = called(told, 'iam_start_subagent').at(-1)
  const drafted = typeof drafter?.answer === 'string' ? ` The drafter says: ${drafter.answer}` : ''
  if (found.length === 0) return `I could not prepare the briefs.${gaps}`
  const lines = found.map((a) => `• ${a.name}: renews in ${a.renewal_in_days} days`).join('\n')
  return `The renewal briefs are ready.\n${lines}\n${`${drafted}${gaps}`.trim()}`.trim()
}

/** What the person says afterwards: prices, sending, or that it is done. */
function followUp(told: readonly Told[]): NextStep | null {
  const at = told.findLastIndex((one) => one.from === 'user')
  const said = told[at]
  const earlier = told.slice(0, at).some((one) => one.from === 'model')
  if (said?.from !== 'user' || !earlier) return null
  const since = told.slice(at)
  if (/\b(end|finish|done|close)\b/i.test(said.text))
    return called(since, 'iam_end_session').length > 0
      ? { text: 'The session is over, and everything was given back.' }
      : {
          text: '',
          call: { tool: 'iam_end_session', args: { summary: 'Renewal briefs prepared.' } },
        }
  if (/\b(price|prices|pricing|pay|pays)\b/i.test(said.text)) {
    const next = settle(
      since,
      [PRICING],
      'You asked about prices.',
      'Prices are sensitive, so I ask you each time.',
    )
    return (
      next ?? {
        text: has(since, PRICING)
          ? 'I may look at prices for this session now.'
          : `I do not have the prices.${without(since, PRICING, 'them')}`,
      }
    )
  }
  if (/\b(send|mail|email)\b/i.test(said.text)) return sending(since, renewals(told)[0])
  return { text: 'I can look up prices, send the drafts, or end the session: tell me which.' }
}

function sending(since: readonly Told[], account: Account | undefined): NextStep {
  const domain =
    account === undefined
      ? 'customer.example'
      : `${account.id.toLowerCase().replace(/[^a-z0-9-]/g, '-')}.example`
  const item: Item = { permission: 'email:send', resource: `domain/${domain}` }
  const next = settle(since, [item], `To send the renewal email to ${domain}.`, '')
  if (next) return next
  if (!has(since, item)) return { text: `Nothing was sent.${without(since, item, 'sending')}` }
  if (called(since, 'send_email').length === 0)
    return {
      text: '',
      call: {
        tool: 'send_email',
        args: {
          to: `contact@${domain}`,
          subject: 'Your renewal',
          body: 'Let us talk about your renewal.',
        },
      },
    }
  return { text: `The email to contact@${domain} was handed over.` }
}

/** The drafter: writes a template, wants the prices, does without them if it must. */
export function emailDrafter(told: readonly Told[]): NextStep {
  const write = settle(
    told,
    [TEMPLATES],
    'To save the drafts as email templates.',
    'I need to save the drafts, so I am asking you.',
  )
  if (write) return write
  const price = settle(told, [PRICING], 'To mention the current price in the renewal emails.', '')
  if (price) return price
  if (has(told, TEMPLATES) && called(told, 'save_email_template').length === 0)
    return {
      text: '',
      call: {
        tool: 'save_email_template',
        args: {
          name: 'renewal',
          subject: 'Your renewal',
          body: 'Your contract renews soon. Let us find a time to talk about it.',
        },
      },
    }
  const gaps = `${without(told, TEMPLATES, 'saving the drafts')}${without(told, PRICING, 'the prices')}`
  return {
    text: `${has(told, TEMPLATES) ? 'One draft is saved as a template.' : 'The draft is not saved.'}${gaps}`,
  }
}
