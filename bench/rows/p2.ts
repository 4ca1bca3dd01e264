import type { Options } from '../options.ts'
import { type Person, withPerson } from '../support/person.ts'
import { type Compared, median } from '../support/rounds.ts'

const SECONDS_MAX = 1.5
const EACH = 5
const PATIENCE = 30_000

/**
 * Notes when one could type a task: the box is there, and two frames have been drawn since, so nothing keeps the page
 * busy. Counted by the browser's own clock from the beginning of the navigation.
 */
const WATCH = `(() => {
  const look = () => {
    const box = document.querySelector('main textarea')
    if (!box || box.disabled) return requestAnimationFrame(look)
    requestAnimationFrame(() => requestAnimationFrame(() => { window.reportInteractive(performance.now()) }))
  }
  look()
})()`

async function cold({ lend, browser, context }: Person): Promise<number> {
  // A context of its own has an empty cache; the cookies are the signed-in person's.
  const fresh = await browser.newContext({
    locale: 'en-GB',
    storageState: await context.storageState(),
  })
  try {
    const page = await fresh.newPage()
    // The page's policy allows no evaluation, so it is told and not asked.
    const interactive = new Promise<number>((resolve, reject) => {
      setTimeout(() => reject(new Error('the page is not interactive')), PATIENCE).unref()
      page.exposeFunction('reportInteractive', resolve).catch(reject)
    })
    await page.addInitScript(WATCH)
    const [at] = await Promise.all([interactive, page.goto(`${lend.origin}/t/acme/sessions`)])
    return at / 1000
  } finally {
    await fresh.close()
  }
}

/** P2: from the beginning of the navigation until a signed-in person could type, with nothing cached. */
export async function p2(options: Options): Promise<readonly Compared[]> {
  return withPerson(async (person) => {
    const each = options.quick ? 1 : EACH
    const once = async () => {
      const all: number[] = []
      for (let i = 0; i < each; i++) all.push(await cold(person))
      return { interactive: median(all) }
    }
    await once()
    const rounds = []
    for (let i = 0; i < options.rounds; i++) {
      rounds.push(await once())
      process.stdout.write('.')
    }
    const lend = median(rounds.map((round) => round.interactive))
    return [
      {
        row: 'P2',
        what: 'page interactive, cold, signed in',
        unit: 's',
        lend,
        other: null,
        ratio: null,
        reach: `< ${SECONDS_MAX} s`,
        met: lend < SECONDS_MAX,
        rounds,
      },
    ]
  })
}
