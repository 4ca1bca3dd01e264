import type { Me } from './types.ts'

/** What a person may do in the studio. The server decides; this only hides and explains. */
export const studioRoles = (me: Me) => {
  const builds = me.staff_roles.includes('builder')
  const reviews = me.staff_roles.includes('reviewer')
  return { builds, reviews, some: builds || reviews }
}
