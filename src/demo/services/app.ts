import { Hono } from 'hono'
import type { Ctx } from '../../ports.ts'
import type { DemoSecrets } from '../secrets.ts'

/** The demo's services, for mounting at the root. */
export async function createDemoServices(_: {
  readonly ctx: Ctx
  readonly secrets: DemoSecrets
}): Promise<Hono> {
  return new Hono()
}
