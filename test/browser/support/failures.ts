import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { beforeEach, onTestFailed } from 'vitest'
import { root } from '../../system/support/server.ts'
import type { Lend } from './lend.ts'

const FOLDER = join(root, 'test', 'out', 'browser')

/** When a test fails: a picture and the text of every page, and what the server has logged. */
export function showFailures(of: () => { readonly browser: Browser; readonly lend: Lend }): void {
  beforeEach(() => {
    onTestFailed(async ({ task }) => {
      const { browser, lend } = of()
      mkdirSync(FOLDER, { recursive: true })
      const name = task.name.replace(/[^\w]+/g, '-').slice(0, 60)
      const pages = browser?.contexts().flatMap((context) => context.pages()) ?? []
      for (const [i, page] of pages.entries()) {
        const path = join(FOLDER, `${name}-${i}.png`)
        await page.screenshot({ path, timeout: 10_000 }).catch(() => undefined)
        const text = await page
          .locator('body')
          .ariaSnapshot({ timeout: 10_000 })
          .catch(() => 'no text')
        console.log(`--- ${page.url()} (${path})\n${text}`)
      }
      console.log(`--- the server's log\n${lend?.log().slice(-4_000)}`)
    })
  })
}

/** For a story whose steps stand on each other: after a step that failed, the rest are skipped instead of waiting in vain. */
export function stepByStep(): void {
  beforeEach(({ task, skip }) => {
    const before = task.suite?.tasks ?? []
    if (before.some((one) => one.result?.state === 'fail')) skip('an earlier step failed')
  })
}
