import { startInstance } from './instance.ts'
import { setScene } from './scene.ts'
import { createStory, Differs } from './story.ts'
import { journeyThree } from './three.ts'
import { journeyTwo } from './two.ts'

/**
 * `npm run journey`: plays the journeys against a fresh instance, and fails at the first step that
 * differs.
 */
async function main(): Promise<number> {
  const story = createStory(process.stdout)
  process.stdout.write('Starting a fresh instance that keeps nothing …\n')
  const instance = await startInstance()
  try {
    const scene = await setScene(story, instance)
    const sessions = await journeyTwo(scene)
    await journeyThree(scene, sessions)
    story.done()
    return 0
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    process.stderr.write(
      `\nThe journey ${error instanceof Differs ? 'differs at ' : 'broke off: '}${message}\n`,
    )
    return 1
  } finally {
    await instance.stop()
  }
}

try {
  process.exitCode = await main()
} catch (error) {
  process.stderr.write(
    `The journey could not start: ${error instanceof Error ? error.message : String(error)}\n`,
  )
  process.exitCode = 1
}
