import { type Browser, chromium } from 'playwright-core'

/** Debian's Chromium; another one is named in LEND_CHROMIUM. Never a browser that a package has downloaded. */
export const CHROMIUM = process.env.LEND_CHROMIUM || '/usr/bin/chromium'

const ARGS = [
  // Tests may run as root, where the sandbox does not start; the page is our own and on this machine.
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

export const openBrowser = (): Promise<Browser> =>
  chromium.launch({ executablePath: CHROMIUM, args: ARGS, timeout: 120_000 })
