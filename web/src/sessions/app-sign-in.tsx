import { useTenant } from '../api/queries.ts'
import { paths } from '../router.tsx'
import { Empty } from '../ui/states.tsx'
import { words } from '../words.ts'

/** The app has a sign-in of its own, and it can run out before Lend's does. What was typed is kept. */
export function AppSignIn({ note }: { readonly note?: string | undefined }) {
  const tenant = useTenant()
  return (
    <Empty
      title={words.start.appSignIn}
      note={note}
      action={
        <a
          className="button button-primary"
          href={paths(tenant).signIn(location.pathname + location.search)}
        >
          {words.signIn.button}
        </a>
      }
    >
      {words.start.appSignInWhy}
    </Empty>
  )
}
