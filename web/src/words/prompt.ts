import { count } from '../lib/text.ts'

const things = (n: number): string => count(n, 'thing')

/** The prompt card, and the sheet for several. */
export const promptWords = {
  batch: {
    open: 'Answer several',
    title: 'All that waits for you',
    column: { agent: 'Agent', item: 'Asks for', risk: 'Risk', state: 'Waiting' },
    all: 'Choose all that are not sensitive',
    choose: (who: string, n: number) => `Choose what ${who} asks for: ${things(n)}`,
    chosen: (items: number, agents: number) =>
      items === 0
        ? 'Nothing is chosen.'
        : `Chosen: ${count(items, 'item')} for ${count(agents, 'agent')}.`,
    allowing: (items: number, agents: number) =>
      `You are allowing ${count(items, 'item')} for ${count(agents, 'agent')}, each in its own session only.`,
    allow: (items: number) => `Allow ${count(items, 'item')}`,
    apart:
      'A request is answered whole. Those with something sensitive are answered one by one: Review.',
    sent: (n: number) => `${count(n, 'request')} answered. What became of each is in the table.`,
  },
  card: {
    asks: (who: string, n: number) => `${who} asks for ${things(n)}`,
    template: (title: string, version: number) => `${title} v${version}`,
    path: 'Asked by, from the top: ',
    forYou: (name: string) => `for you, ${name}`,
    says: 'The agent says',
    permission: 'Permission',
    checkedAt: 'Checked',
    access: 'It',
    exactFilter: 'Exact filter',
    on: 'On',
    onAll: 'On all of',
    only: 'Only where',
    answerFor: (title: string) => `Your answer for ${title}`,
    choice: { deny: 'Deny', allow_once: 'Allow once', allow_always: 'Always' },
    alreadySettled: 'Settled without asking you',
    until: (left: string, at: string) => `Until this session ends, at most ${left} (${at}).`,
    untilEnd: 'Until this session ends.',
    restrictions: 'Your own restrictions still apply.',
    checkedAgain:
      'Your access is checked again at least every 15 minutes; what you lose, the agent loses.',
    deny: 'Deny',
    denyRest: 'Deny the rest',
    denyAll: 'Deny all',
    denyMeans: 'it goes on without',
    allowOnce: 'Allow once',
    allowOnceMore: 'Allow once…',
    allowOnceMeans: 'this session only',
    always: 'Always allow…',
    alwaysHint: 'not asked next time',
    perItem: 'Choose per item',
    denyWithNote: 'Deny with a note…',
    details: 'Details',
    keys: 'Keys in this card: 1 Allow once, 2 Always, 3 Deny, I per item, D details, Esc back to the message box.',
    sensitiveFirst:
      'Choose for the sensitive item first: it is not answered along with the others.',
    chooseEach: 'Choose for every item.',
    sendAnswers: 'Send answers',
    alwaysTitle: (n: number) =>
      n === 1 ? 'This rule will be saved' : `These ${n} rules will be saved`,
    alwaysMeans:
      'A rule skips the question. It never gives access you do not have, and a version that allows more asks again.',
    onceOnly: (titles: string) => `Allowed once, with no rule: ${titles}.`,
    ruleLasts: 'Rule lasts',
    saveAndAllow: 'Save rule and allow',
    denyTitle: 'Deny',
    noteLabel: 'Note to the agent (optional)',
    notePlaceholder: 'Sent to the agent as your words',
    denyAlways: 'Always deny this for this template',
    sensitiveTitle: (who: string) => `Sensitive: let ${who} have it in this session?`,
    sensitiveMeans: 'This is never remembered: you are asked every time.',
    waiting: 'Waiting',
    endsIn: (left: string) => `ends in ${left}`,
    soonOver: (who: string) => `The request of ${who} ends in less than 60 seconds.`,
    changed:
      'The request changed after it was shown, so nothing was sent. Look again before you answer.',
    stale:
      'Live updates have been away for a while, so this may be old. You can answer when they are back.',
    notSent: 'Your answer was not taken.',
    settled: (who: string, end: string) => `${who}: ${end}`,
    ended: {
      allowed: 'you allowed it',
      denied: 'you denied it',
      partly: (n: number, all: number) => `you allowed ${n} of ${all}`,
      expired: 'the request expired',
      cancelled: 'the request was withdrawn',
      withoutAsking: 'settled without asking you',
    },
    allowedAlways: 'Allowed by you, and a rule saved',
    elsewhere: 'Answered in another window or on another device.',
    tooLate:
      'It was settled before your answer arrived, so your answer changed nothing. This is how it ended.',
    youSaid: 'You said:',
    ruleSaved: (n: number) => `${count(n, 'rule')} saved.`,
    seeRules: 'See rules',
    undoRule: 'Undo rule',
  },
}
