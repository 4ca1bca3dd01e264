import { Compass } from 'lucide-react'
import { Link, paths } from '../router.tsx'
import { Empty } from '../ui/states.tsx'
import { words } from '../words.ts'

export function Nowhere({ tenant }: { readonly tenant: string | undefined }) {
  return (
    <main id="main" className="alone" tabIndex={-1}>
      <h1 className="visually-hidden">{words.nowhere.title}</h1>
      <Empty
        icon={Compass}
        title={words.nowhere.title}
        action={
          <Link
            className="button button-primary"
            href={tenant === undefined ? '/' : paths(tenant).sessions}
          >
            {tenant === undefined ? words.nowhere.organisations : words.nowhere.sessions}
          </Link>
        }
      >
        {words.nowhere.why}
      </Empty>
    </main>
  )
}
