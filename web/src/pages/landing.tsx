import { ArrowRight } from 'lucide-react'
import { type FormEvent, useState } from 'react'
import { useConfig } from '../api/queries.ts'
import { plain } from '../lib/text.ts'
import { Link, navigate, paths } from '../router.tsx'
import { Button, Mark } from '../ui/parts.tsx'
import { ErrorState, Skeleton } from '../ui/states.tsx'
import { words } from '../words.ts'

const SLUG = /^[a-z0-9][a-z0-9-]{0,62}$/

function OrganisationForm() {
  const [slug, setSlug] = useState('')
  const [wrong, setWrong] = useState(false)
  const go = (event: FormEvent) => {
    event.preventDefault()
    const name = slug.trim().toLowerCase()
    if (SLUG.test(name)) navigate(paths(name).sessions)
    else setWrong(true)
  }
  return (
    <form className="organisation" onSubmit={go}>
      <label className="field">
        <span>{words.landing.organisation}</span>
        <input
          value={slug}
          autoComplete="organization"
          autoCapitalize="none"
          spellCheck={false}
          aria-invalid={wrong}
          aria-describedby={wrong ? 'organisation-wrong' : undefined}
          onChange={(event) => {
            setSlug(event.target.value)
            setWrong(false)
          }}
        />
      </label>
      {wrong && (
        <p id="organisation-wrong" className="field-error" role="alert">
          {words.landing.wrong}
        </p>
      )}
      <Button look="primary" type="submit" icon={ArrowRight}>
        {words.landing.go}
      </Button>
    </form>
  )
}

/** Which organisation: every address belongs to one, and none is the default. */
export function Landing() {
  const config = useConfig()
  const tenants = config.data?.tenants ?? []
  return (
    <main id="main" className="alone">
      <div className="alone-inner">
        <Mark size={44} />
        <h1>{words.product}</h1>
        <p className="lead">{words.landing.lead}</p>
        {config.isPending && <Skeleton label={words.state.loading} />}
        {config.error && (
          <ErrorState
            error={config.error}
            what={words.state.pageFailed}
            onRetry={() => config.refetch()}
          />
        )}
        {tenants.length > 0 && (
          <>
            <h2>{words.landing.choose}</h2>
            <ul className="tenants">
              {tenants.map(({ slug, name, people }) => (
                <li key={slug}>
                  <Link className="tenant" href={paths(slug).sessions}>
                    <strong>{plain(name)}</strong>
                    <span className="muted">
                      {people.map((one) => plain(one.login)).join(', ')}
                    </span>
                    <ArrowRight aria-hidden="true" size={17} />
                  </Link>
                </li>
              ))}
            </ul>
          </>
        )}
        {(config.data === null || (config.data && tenants.length === 0)) && <OrganisationForm />}
        {config.data?.demo && <p className="muted">{words.landing.demo}</p>}
      </div>
    </main>
  )
}
