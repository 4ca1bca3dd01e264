import { count, duration } from '../lib/text.ts'

const times = (n: number): string => (n === 1 ? 'once' : `${n} times`)
const percent = (share: number): string => `${Math.round(share * 100)} %`

export const reviewWords = {
  title: 'Reviews',
  lead: 'What was lent or remembered and is not needed, and how consent goes.',
  failed: 'The reviews could not be loaded',
  days: (n: number) => `${n} days`,
  looked: 'Looked back over',
  health: {
    title: 'Consent health',
    lead: 'Whether people read what they are asked.',
    failed: 'The numbers could not be loaded',
    all: 'All templates',
    none: 'Nobody was asked anything in this time.',
    column: {
      template: 'Template',
      sessions: 'Sessions',
      prompts: 'Prompts',
      each: 'Prompts a session',
      rate: 'Approved',
      median: 'Time to decide, half',
      p90: 'Nine in ten',
      ends: 'Ends',
    },
    ends: (of: {
      allowed: number
      denied: number
      refused: number
      expired: number
      cancelled: number
    }) =>
      [
        `${of.allowed} allowed`,
        `${of.denied} denied`,
        of.refused > 0 ? `${of.refused} refused at the answer` : '',
        of.expired > 0 ? `${of.expired} expired` : '',
        of.cancelled > 0 ? `${of.cancelled} withdrawn` : '',
      ]
        .filter(Boolean)
        .join(', '),
    rate: (share: number | null) => (share === null ? '–' : percent(share)),
    seconds: (n: number | undefined) =>
      n === undefined ? '–' : n < 60 ? `${Math.round(n * 10) / 10} s` : duration(n),
    number: (n: number | null) => (n === null ? '–' : String(Math.round(n * 10) / 10)),
    notReading: 'People are not reading',
    notReadingWhy: 'More than 95 % approved, half of them in under two seconds.',
  },
  rules: {
    title: 'Rules nobody needs',
    none: 'Every allow rule was used in this time.',
    column: {
      person: 'Person',
      permission: 'Permission',
      template: 'Template',
      made: 'Made',
      used: 'Last used',
    },
    neverUsed: 'never',
    remove: 'Take away',
    removeOne: (login: string, title: string) => `Take away the rule of ${login} for ${title}`,
    removeTitle: 'Take this rule away?',
    removeMeans: (login: string, title: string, template: string) =>
      `${login} is asked again when ${template} asks for ${title}. What sessions hold now stays held. ${login} can make the rule again.`,
    removed: (login: string, title: string) => `Rule of ${login} taken away: ${title}.`,
  },
  unused: {
    title: 'Granted, never used',
    none: 'Everything that was granted three times or more was used.',
    column: { permission: 'Permission', template: 'Template', granted: 'Granted', used: 'Used' },
    granted: (n: number, sessions: number) => `${times(n)} in ${count(sessions, 'session')}`,
    notOnce: 'not once',
    narrow: 'Narrow',
    narrowOne: (title: string, template: string) => `Take ${title} out of ${template}`,
    narrowTitle: (title: string) => `Take ${title} out?`,
    narrowMeans: (title: string, template: string) =>
      `No session of ${template} in your organisation can ask for ${title} any more, and those that hold it lose it within seconds. You can put it back under Templates.`,
    narrowed: (title: string, template: string, ended: number) =>
      `${title} taken out of ${template}.${ended > 0 ? ` ${count(ended, 'session')} ended.` : ''}`,
  },
  refused: {
    title: 'People say yes to everything',
    none: 'No template with ten answers or more was always answered yes.',
    answered: (n: number) => `${count(n, 'answer')}, no denial`,
    look: 'Look at what it may ask for',
  },
}

export const templateWords = {
  title: 'Templates',
  lead: 'The kinds of agent job that your organisation may turn on. It can only take away from what a template allows.',
  failed: 'The templates could not be loaded',
  none: 'No template is published for your organisation',
  noneWhy: 'A builder publishes one, or makes a private one public.',
  on: 'On',
  off: 'Off',
  version: (n: number) => `v${n}`,
  waits: (n: number) => `v${n} waits for you`,
  waitsRead: (n: number) => `v${n} waits for an org admin`,
  summary: (kept: number, all: number) =>
    kept === all ? `${count(all, 'item')}, all kept` : `${kept} of ${all} items kept`,
  details: 'What it may ask for',
  edit: 'Change',
  turnOn: 'Turn on',
  turnOff: 'Turn off',
  see: (n: number) => `See what v${n} changes`,
  kept: 'Items',
  keptMeans: 'What is not ticked, no session in your organisation can ask for.',
  narrower: 'narrower than the template',
  takenOut: 'taken out',
  modes: 'Modes',
  askAlways: 'Always on',
  limits: 'Limits',
  limitMax: (n: string) => `at most ${n}`,
  limitName: {
    sessionLifeSeconds: 'A session lasts, in seconds',
    subagentDepth: 'Subagents below one another',
    liveChildren: 'Subagents at once',
    liveRootsPerUser: 'Sessions at once for one person',
    itemsPerRequest: 'Items in one request',
    requestsPerMinute: 'Requests a minute',
    openRequests: 'Requests that wait at once',
    requestWaitSeconds: 'A request waits, in seconds',
  } as Readonly<Record<string, string>>,
  limitWords: (name: string, n: number) => (name.endsWith('Seconds') ? duration(n) : String(n)),
  save: 'Save',
  saveOn: (n: number) => `Turn v${n} on`,
  notSaved: 'Not saved.',
  narrowsNow: 'What is taken away reaches live sessions within seconds.',
  offTitle: (title: string) => `Turn ${title} off?`,
  offMeans:
    'Every session of it in your organisation ends now and gives everything back; no new one can start. Rules that people made stay, and count again when you turn it on.',
  adoptTitle: (title: string, from: number, to: number) => `${title}: from v${from} to v${to}`,
  adopt: (n: number) => `Adopt v${n}`,
  adoptMeans: (widens: boolean) =>
    widens
      ? 'It allows more than now. After adopting, the allow rules that people made for it wait until each of them has seen what changed.'
      : 'It allows nothing more than now. Nobody is asked again.',
  adoptNext: 'Only this version starts sessions from then on.',
  previewFailed: 'What it changes could not be loaded',
  noChange: 'Nothing that your organisation keeps changes.',
  replay: (days: number, items: number) =>
    items === 0
      ? `No request was recorded in the last ${days} days.`
      : `The ${count(items, 'item')} asked in the last ${days} days, decided again:`,
  replayChanged: (refused: number, asked: number, granted: number) =>
    refused + asked + granted === 0
      ? 'all come out as they did.'
      : [
          refused > 0 ? `${refused} would now be refused` : '',
          asked > 0 ? `${asked} would now be asked` : '',
          granted > 0 ? `${granted} would now be granted` : '',
        ]
          .filter(Boolean)
          .join(', ')
          .concat('.'),
  done: {
    on: (title: string) => `${title} is on.`,
    off: (title: string) => `${title} is off.`,
    adopted: (title: string, n: number) => `${title} is now v${n}.`,
  },
  effect: (rules: number, sessions: number) =>
    [
      sessions === 0 ? 'No session ended' : `${count(sessions, 'session')} ended`,
      rules === 0
        ? 'no rule waits.'
        : `${count(rules, 'rule')} ${rules === 1 ? 'waits' : 'wait'} until ${rules === 1 ? 'its person has' : 'their people have'} looked.`,
    ].join(', '),
}

export const freezeWords = {
  title: 'Freeze',
  lead: 'While something is frozen nothing is issued, granted or allowed to it. Nothing ends; ending, denying and giving back stay open.',
  failed: 'What is frozen could not be loaded',
  none: 'Nothing is frozen',
  noneWhy: 'A freeze stops agents at once without ending their sessions, and is lifted as fast.',
  column: { what: 'What', who: 'By', when: 'Since' },
  scope: {
    tenant: 'The whole organisation',
    template: 'A template',
    agent: 'An agent',
    user: 'A person',
  },
  scopeShort: { tenant: 'Organisation', template: 'Template', agent: 'Agent', user: 'Person' },
  choose: 'What to freeze',
  which: { template: 'Template', agent: 'Agent', user: 'Login of the person' },
  pick: 'Choose…',
  freeze: 'Freeze',
  unfreeze: 'Unfreeze',
  unfreezeOne: (what: string) => `Unfreeze ${what}`,
  freezeTitle: (what: string) => `Freeze ${what}?`,
  freezeMeans: {
    tenant:
      'No agent of your organisation is issued a token, granted anything or let through anywhere until you unfreeze it.',
    template:
      'No session of this template, and none below one, is issued, granted or allowed anything until you unfreeze it.',
    agent: 'No session of this agent is issued, granted or allowed anything until you unfreeze it.',
    user: 'No session for this person is issued, granted or allowed anything until you unfreeze them.',
  },
  nothingEnds: 'Nothing ends: sessions keep what they hold and go on when it is lifted.',
  frozen: (what: string) => `Frozen: ${what}.`,
  unfrozen: (what: string) => `Unfrozen: ${what}.`,
  notFrozen: 'Not frozen.',
  notUnfrozen: 'Not unfrozen.',
  nobody: (login: string) => `Nobody here has the login “${login}”.`,
  gone: 'no longer there',
  readOnly: 'Org admins freeze and unfreeze.',
}
