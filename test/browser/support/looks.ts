import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { AxeBuilder } from '@axe-core/playwright'
import type { Page } from 'playwright-core'
import { root } from '../../system/support/server.ts'

/** How a screen looks: pictures for people, and what a program can find wrong with it. */

const FOLDER = join(root, 'test', 'out', 'screens')

export const THEMES = ['light', 'dark'] as const
export type Theme = (typeof THEMES)[number]

export async function picture(page: Page, name: string): Promise<void> {
  mkdirSync(FOLDER, { recursive: true })
  await page.screenshot({ path: join(FOLDER, `${name}.png`), animations: 'disabled' })
}

/** What axe calls serious or critical, one line each: the rule, how often, and where first. */
export async function findingsOf(
  page: Page,
  without: readonly string[] = [],
): Promise<readonly string[]> {
  const axe = new AxeBuilder({ page }).setLegacyMode(true).disableRules([...without])
  const { violations } = await axe.analyze()
  return violations
    .filter((one) => one.impact === 'serious' || one.impact === 'critical')
    .map((one) => {
      const [first] = one.nodes
      const why = first?.any[0]?.message ?? first?.all[0]?.message ?? one.help
      return `${one.id} ×${one.nodes.length}: ${first?.target.join(' ')}: ${why}`
    })
}

/** What would have to be scrolled sideways to, or is cut off there. Empty: nothing. */
export const wideIn = (page: Page): Promise<readonly string[]> =>
  page.evaluate(`(() => {
    const width = document.documentElement.clientWidth
    const name = (one) => one.tagName.toLowerCase() + (one.className ? '.' + one.className : '')
    const wide = []
    if (document.documentElement.scrollWidth > width)
      wide.push('the page: ' + document.documentElement.scrollWidth)
    for (const one of document.querySelectorAll('body *')) {
      const style = getComputedStyle(one)
      const box = one.getBoundingClientRect()
      if (box.width < 2 || box.height < 2) continue
      if (!one.checkVisibility({ visibilityProperty: true })) continue
      if (one.closest('.visually-hidden, [hidden]')) continue
      if (box.right > width + 1 || box.left < -1) wide.push(name(one) + ' to ' + box.right)
      const scrolls = ['auto', 'scroll'].includes(style.overflowX)
      if (scrolls && one.scrollWidth > one.clientWidth + 1) wide.push(name(one) + ' scrolls')
    }
    return wide.slice(0, 5)
  })()`)
