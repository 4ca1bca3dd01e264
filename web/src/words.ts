import { count } from './lib/text.ts'
import { accessWords } from './words/access.ts'
import { pageWords } from './words/pages.ts'
import { promptWords } from './words/prompt.ts'
import { outcome, why } from './words/reasons.ts'

/**
 * Everything that the page says, here and in words/. Verbs of lending: ask, lend, hold, give back, end. You, and the agent.
 */
const things = (n: number): string => count(n, 'thing')
const requests = (n: number): string => count(n, 'request')

export const words = {
  product: 'Lend',
  back: 'Back',
  cancel: 'Cancel',
  close: 'Close',
  dismiss: 'Dismiss',
  keep: 'Keep it',
  undo: 'Undo',
  sending: 'Sending…',
  waiting: 'Waiting for you',
  less: 'Show less',
  showAll: (n: number) => `Show all ${n} characters`,
  whyQuestion: 'Why?',
  whyUnknown:
    'The server gave a reason that this page does not know yet. Reload to get the newest page.',
  sensitive: 'Sensitive',
  outcome,
  why,

  kind: { api: 'API', data: 'Data', asset: 'Asset', tool: 'Tool' },
  risk: { low: 'Low risk', medium: 'Medium risk', high: 'High risk' },
  accessKind: { read: 'Reads', write: 'Writes', admin: 'Administers' },
  enforcedAt: {
    gateway: 'At the API gateway, on every call',
    data: 'In the data service, row by row and field by field',
    asset: 'By the service, live: the agent holds it and you have it',
    tool_gateway: 'At the tool gateway, on every call and for its destination',
  },
  enforcedWhere: {
    gateway: 'Enforced at the API gateway',
    data: 'Enforced in the data service',
    asset: 'Enforced by the service, live',
    tool_gateway: 'Enforced at the tool gateway',
  },
  expiry: { '30': '30 days', '90': '90 days', never: 'Until I remove it' },
  source: {
    user: { name: 'You', means: 'You allowed it in this session' },
    rule: { name: 'Your rule', means: 'You said always before; see Rules' },
    mode: { name: 'Mode', means: 'Granted by the session’s mode, without asking' },
    inherited: { name: 'Inherited', means: 'Lent on by the agent above; lost there, lost here' },
    inheritedReadOnly: 'Inherited, read-only',
  },
  mode: {
    ask: { name: 'Ask', means: 'You are asked about everything that no rule of yours answers.' },
    auto: { name: 'Auto', means: 'Low-risk items are granted without asking. The rest is asked.' },
    bypass: {
      name: 'Bypass',
      means:
        'Everything the template allows and you have is granted without asking, except what is sensitive.',
    },
    chip: (name: string) => `Mode: ${name}. Change`,
    tightenTo: (name: string) => `Tighten to ${name}`,
    looser: 'Looser than now: needs a new session.',
    tightened: (name: string) => `Mode is now ${name}. What is held stays held.`,
  },

  state: {
    loading: 'Loading',
    still: 'Still loading…',
    retry: 'Try again',
    copy: 'Copy',
    copied: 'Copied',
    requestId: 'Request id',
    down: 'The server cannot be reached',
    unreachable: 'It may be starting, or your connection is away. Nothing is lost; try again.',
    againAt: (time: string) => `It works again at ${time}.`,
    notKnown: 'Whether it arrived is not known; sending it again does it once at most.',
    unknown: 'Something went wrong in this page. Reloading usually helps.',
    forbidden: 'You cannot see this',
    whoToAsk: 'Your organisation’s admin can say who does.',
    pageFailed: 'This page could not be loaded',
  },
  line: {
    opening: 'Connecting',
    live: 'Live',
    lost: 'Live updates paused',
    banner: 'Live updates paused, reconnecting',
  },
  nav: {
    skip: 'Skip to content',
    main: 'Main',
    home: 'Lend, sessions',
    panes: 'Panes',
    sessions: 'Sessions',
    approvals: 'Approvals',
    rules: 'Rules',
    agents: 'My agents',
    studio: 'Studio',
    tabs: { sessions: 'Sessions', chat: 'Chat', access: 'Access' },
    titles: {
      landing: '',
      sessions: 'New session · ',
      session: 'Session · ',
      approvals: 'Approvals · ',
      approval: 'Request · ',
      rules: 'Rules · ',
      agents: 'My agents · ',
      studio: 'Studio · ',
      version: 'Template · ',
      trial: 'Sandbox · ',
      nowhere: '',
    },
    waiting: (n: number) => `${requests(n)} waiting`,
    userMenu: (name: string) => `${name}: account and appearance`,
    theme: 'Appearance',
    themes: { system: 'System', light: 'Light', dark: 'Dark' },
    signOut: 'Sign out',
    signOutFailed: 'You could not be signed out: the server cannot be reached. Try again.',
    resize: { left: 'Width of sessions', right: 'Width of access' },
  },
  told: {
    one: (who: string, n: number) => `${who} asks for ${things(n)}. Press Alt+A to review.`,
    many: (n: number) => `${requests(n)} waiting. Press Alt+A to review the oldest.`,
    none: 'Nothing is waiting for you.',
  },
  landing: {
    lead: 'Agents that borrow access from you, ask first, and give everything back.',
    choose: 'Choose your organisation',
    organisation: 'Your organisation',
    wrong: 'An organisation’s name here is small letters, digits and dashes, as in acme.',
    go: 'Go on',
    demo: 'This is the demo: everyone in it is made up, and nothing leaves this computer.',
  },
  signIn: {
    title: (org: string) => `Sign in to ${org}`,
    lead: 'With your organisation’s own sign-in. You come back to where you are now.',
    button: 'Sign in',
    people: 'People in this demo',
    demo: 'Choose one of them at the sign-in; the demo asks for no password.',
    other: 'Another organisation',
  },
  nowhere: {
    title: 'There is nothing at this address',
    why: 'It may have been mistyped, or it belongs to another organisation.',
    organisations: 'Organisations',
    sessions: 'Your sessions',
  },

  sessions: {
    new: 'New session',
    search: 'Search sessions',
    group: { waiting: 'Waiting for you', running: 'Running', today: 'Ended today', older: 'Older' },
    endsSoon: 'ends soon',
    failed: 'Your sessions could not be loaded',
    oneFailed: 'This session could not be loaded',
    none: 'No sessions yet',
    noneWhy: 'Give an agent something to do and it is listed here.',
    notFound: (sought: string) => `Nothing matches “${sought}”`,
    gone: 'There is no such session',
    goneWhy: 'Or it is not one of yours.',
  },
  endReason: {
    agent: 'Ended by the agent',
    user: 'Ended by you',
    parent: 'Ended with its session',
    timeout: 'Time was up',
    admin: 'Revoked by an admin',
    user_disabled: 'Revoked: account disabled',
    agent_disabled: 'Revoked: agent disabled',
    template_off: 'Revoked: template turned off',
    token_revoked: 'Revoked by its app',
    unknown: 'Ended',
  },
  start: {
    title: (name: string) => `What should your agent do${name === '' ? '' : `, ${name}`}?`,
    lead: 'It starts with no access. It asks you for what it needs, when it needs it.',
    task: 'Task',
    placeholder: 'Describe the task…',
    suggestion: 'Prepare renewal briefs for my accounts that renew this quarter',
    template: 'Kind of work',
    mode: 'Mode',
    modeOff: 'Turned off by your organisation',
    modeRefused: (name: string) =>
      `${name} is turned off by your organisation for this kind of work. Choose another mode.`,
    zero: 'Starts with no access.',
    model: (kind: 'scripted' | 'real', name: string) =>
      kind === 'scripted' ? 'Scripted model: plays the demo, needs no key.' : `Model: ${name}.`,
    start: 'Start',
    starting: 'Starting…',
    failed: 'Not started.',
    notBegun: (ended: boolean) =>
      ended
        ? 'The agent did not take it up, so the session was ended again. Nothing was lent.'
        : 'The agent did not take it up. Its session is still listed: it holds nothing; try again or end it.',
    signedOutMidway: (ended: boolean) =>
      `Not started: the agent’s app had signed you out. ${
        ended ? 'The session was ended again, and your task is kept.' : 'Your task is kept.'
      }`,
    appFailed: 'The agent’s app could not be asked what it offers',
    noApp: 'No agent app runs here',
    noAppWhy: 'Sessions that other apps start for you are in your list of sessions.',
    noAgent: 'No agent is set up for your organisation',
    noAgentWhy: 'Your organisation’s admin can register one.',
    appSignIn: 'Sign in for the agent too',
    appSignInWhy:
      'The agent’s app has a sign-in of its own: with it the app can work for you, and cannot approve for you.',
  },

  chat: {
    log: 'Conversation',
    you: 'You',
    begins: (agent: string) => `${agent} starts with no access. It asks for what it needs.`,
    composer: 'Message to the agent',
    placeholder: 'Write to the agent…',
    send: 'Send',
    stop: 'Stop',
    stopMeans: 'Stops the agent. The session goes on, and what it holds stays held.',
    stopped: 'Agent stopped. The session goes on and keeps what it holds; end it to take all back.',
    notSent: 'Not done.',
    toEnd: 'Newest',
    state: {
      working: 'Working',
      waiting: 'Waiting for you',
      idle: 'Idle',
      stopped: 'Stopped',
      failed: 'Failed',
      ended: 'Ended',
    },
    step: { running: 'running', done: '', refused: 'refused', failed: 'failed' },
    refused: (n: number) => `${n} refused`,
    runFailed: 'The conversation could not be loaded',
    requestsFailed: 'What was asked could not be loaded',
    notOurs:
      'Another app runs this session, so its conversation is there. What it asks of you is here.',
    notTaken: 'The agent has not taken this session up',
    notTakenWhy: 'It holds nothing. Hand it over again, or end it on the access pane.',
    handOver: 'Hand it over',
    notHandedOver: 'Not handed over.',
    nothingYet: 'Nothing yet. The agent is about to begin.',
    failed:
      'The agent stopped on a fault. Nothing more is done until you write to it; what it holds is on the access pane.',
    bypass: (left: string) =>
      `Bypass: granted without asking, except what is sensitive. ${left} left.`,
    ended: (how: string) => how,
    endedHolds: 'Everything was given back: it holds nothing.',
    startAnother: 'Start another session',
    lookingAt: (title: string) => `Access pane shows ${title}.`,
    wholeSession: 'Show the whole session',
  },
  pending: {
    label: 'Waiting for your answer',
    here: (n: number) => `${requests(n)} waiting`,
    elsewhere: (n: number) =>
      `${requests(n)} waiting in ${n === 1 ? 'another session' : 'other sessions'}`,
    review: 'Review',
    goThere: 'Go there',
  },
  ...promptWords,
  ...accessWords,
  ...pageWords,
}
