import type { Hono } from 'hono'
import type { AppConfig } from './config.ts'
import { brainFor } from './model.ts'
import { appRoutes } from './routes.ts'
import { Runner } from './runner.ts'
import { createStore } from './store.ts'

export type AgentApp = {
  readonly routes: Hono
  /** Once the server answers: goes on with what was under way. */
  readonly resume: () => void
  readonly stop: () => void
}

/** The reference agent app, ready to be mounted beside Lend or served by itself. */
export async function createAgentApp(config: AppConfig): Promise<AgentApp> {
  const store = createStore(config.folder)
  const brain = await brainFor(config)
  const runner = new Runner(config, store, brain)
  return {
    routes: appRoutes({ config, store, runner, brain }),
    resume: () => runner.resume(),
    stop: () => runner.close(),
  }
}
