import { LogIn } from 'lucide-react'
import { useConfig, useTenant } from '../api/queries.ts'
import { plain } from '../lib/text.ts'
import { Link, paths } from '../router.tsx'
import { Mark } from '../ui/parts.tsx'
import { words } from '../words.ts'

/** Shown wherever one was; signing in comes back there. */
export function SignIn() {
  const tenant = useTenant()
  const config = useConfig()
  const here = config.data?.tenants?.find((one) => one.slug === tenant)
  return (
    <main id="main" className="alone">
      <div className="alone-inner">
        <Mark size={44} />
        <h1>{words.signIn.title(plain(here?.name ?? tenant))}</h1>
        <p className="lead">{words.signIn.lead}</p>
        <a
          className="button button-primary button-tall"
          href={paths(tenant).signIn(location.pathname + location.search)}
        >
          <LogIn aria-hidden="true" size={17} />
          {words.signIn.button}
        </a>
        {here && here.people.length > 0 && (
          <section className="demo-people" aria-label={words.signIn.people}>
            <h2>{words.signIn.people}</h2>
            <ul className="plain-list">
              {here.people.map(({ login, name }) => (
                <li key={login}>
                  <code>{plain(login)}</code> {plain(name)}
                </li>
              ))}
            </ul>
            <p className="muted">{words.signIn.demo}</p>
          </section>
        )}
        <Link className="link" href="/">
          {words.signIn.other}
        </Link>
      </div>
    </main>
  )
}
