import { Snowflake } from 'lucide-react'
import { useTenant } from '../api/queries.ts'
import { staffOf, useFreezes } from '../api/staff.ts'
import type { Me } from '../api/types.ts'
import { fullTime } from '../lib/text.ts'
import { Link, paths } from '../router.tsx'
import { words } from '../words.ts'

/** While the whole organisation is frozen, those who may see freezes see it on every screen. */
export function FreezeBanner({ me }: { readonly me: Me }) {
  const to = paths(useTenant())
  const freezes = useFreezes(staffOf(me).reads)
  const frozen = freezes.data?.items.find((one) => one.scope === 'tenant')
  if (frozen === undefined) return null
  return (
    <p className="freeze-banner" role="status">
      <Snowflake aria-hidden="true" size={16} />
      {words.frozen.banner(fullTime(frozen.created_at))}
      <Link className="link" href={to.freezes}>
        {words.frozen.see}
      </Link>
    </p>
  )
}
