import type { Mount } from './endpoint.ts'
import { mountMe } from './me.ts'

/** Every group of routes of the People API, in the order of its document. */
export const MOUNTS: readonly Mount[] = [mountMe]
