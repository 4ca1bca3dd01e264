import {
  Blocks,
  Bot,
  Building2,
  CircleUser,
  ClipboardCheck,
  History,
  Inbox,
  LogOut,
  MessagesSquare,
  Monitor,
  Moon,
  PencilRuler,
  ScrollText,
  Snowflake,
  Sun,
} from 'lucide-react'
import { useEffect } from 'react'
import { useLine } from '../api/events.ts'
import { call } from '../api/http.ts'
import { usePending, useTenant } from '../api/queries.ts'
import { signOutOfApp } from '../api/run.ts'
import { staffOf } from '../api/staff.ts'
import { studioRoles } from '../api/studio-roles.ts'
import type { Me } from '../api/types.ts'
import { useStored } from '../lib/hooks.ts'
import { plain } from '../lib/text.ts'
import { Link, paths, type Route } from '../router.tsx'
import { Badge, Button, classes, Mark } from '../ui/parts.tsx'
import { toast } from '../ui/toasts.tsx'
import { words } from '../words.ts'

type Theme = 'system' | 'light' | 'dark'
const THEMES = [
  { theme: 'system', icon: Monitor },
  { theme: 'light', icon: Sun },
  { theme: 'dark', icon: Moon },
] as const satisfies readonly { theme: Theme; icon: typeof Sun }[]

function ThemeChoice() {
  const [theme, setTheme] = useStored<Theme>('theme', 'system')
  useEffect(() => {
    if (theme === 'system') delete document.documentElement.dataset.theme
    else document.documentElement.dataset.theme = theme
  }, [theme])
  return (
    <fieldset className="segments">
      <legend>{words.nav.theme}</legend>
      {THEMES.map(({ theme: one, icon: Icon }) => (
        <label key={one} className="segment">
          <input type="radio" name="theme" checked={theme === one} onChange={() => setTheme(one)} />
          <span>
            <Icon aria-hidden="true" size={15} /> {words.nav.themes[one]}
          </span>
        </label>
      ))}
    </fieldset>
  )
}

function UserMenu({ me }: { readonly me: Me }) {
  const tenant = useTenant()
  const signOut = async () => {
    try {
      // First where what was said is kept: should the next fail, one is still here to try again.
      await signOutOfApp(tenant)
      const { redirect } = await call<{ redirect: string }>(
        `/t/${encodeURIComponent(tenant)}/auth/logout`,
        { method: 'POST', body: {} },
      )
      // Where to is the server's word, but never out of http(s).
      const to = new URL(redirect, location.origin)
      location.assign(/^https?:$/.test(to.protocol) ? to.href : '/')
    } catch {
      toast(words.nav.signOutFailed)
    }
  }
  return (
    <details className="menu user-menu" name="menu">
      <summary aria-label={words.nav.userMenu(plain(me.name))}>
        <CircleUser aria-hidden="true" size={20} />
        <span className="user-name">{plain(me.name)}</span>
      </summary>
      <div className="menu-body">
        <p className="menu-who">
          <strong>{plain(me.name)}</strong>
          <span className="muted">
            {plain(me.login)} · {plain(me.tenant.name)}
          </span>
        </p>
        <ThemeChoice />
        <Button icon={LogOut} onClick={() => void signOut()}>
          {words.nav.signOut}
        </Button>
      </div>
    </details>
  )
}

/** What the organisation's staff see: a link stands here only for those who may use it. */
function OrganisationMenu({ me, route }: { readonly me: Me; readonly route: Route }) {
  const to = paths(useTenant())
  const staff = staffOf(me)
  if (!staff.reads) return null
  const links = [
    { href: to.freezes, label: words.nav.freezes, icon: Snowflake, at: 'freezes' },
    { href: to.templates, label: words.nav.templates, icon: Blocks, at: 'templates' },
    { href: to.reviews, label: words.nav.reviews, icon: ClipboardCheck, at: 'reviews' },
  ]
  return (
    <details className="menu organisation-menu" name="menu">
      <summary aria-label={words.nav.organisationMenu}>
        <Building2 aria-hidden="true" size={18} />
        <span className="user-name">{words.nav.organisation}</span>
      </summary>
      <nav className="menu-body" aria-label={words.nav.organisationMenu}>
        {links.map(({ href, label, icon: Icon, at }) => (
          <Link
            key={href}
            href={href}
            className="menu-item menu-link"
            aria-current={route.at === at ? 'page' : undefined}
            onClick={(event) => {
              const menu = event.currentTarget.closest('details')
              if (menu) menu.open = false
            }}
          >
            <Icon aria-hidden="true" size={16} /> {label}
          </Link>
        ))}
      </nav>
    </details>
  )
}

function LineDot() {
  const { state } = useLine()
  return (
    <span className={`line line-${state}`} title={words.line[state]}>
      <span className="visually-hidden">{words.line[state]}</span>
    </span>
  )
}

export function TopBar({ me, route }: { readonly me: Me; readonly route: Route }) {
  const tenant = useTenant()
  const pending = usePending()
  const to = paths(tenant)
  const waiting = pending.data?.length ?? 0
  const links = [
    {
      href: to.sessions,
      label: words.nav.sessions,
      icon: MessagesSquare,
      at: ['sessions', 'session'],
      tabbed: true,
    },
    {
      href: to.approvals,
      label: words.nav.approvals,
      icon: Inbox,
      at: ['approvals', 'approval'],
      tabbed: true,
    },
    { href: to.rules, label: words.nav.rules, icon: ScrollText, at: ['rules'], tabbed: false },
    { href: to.agents, label: words.nav.agents, icon: Bot, at: ['agents'], tabbed: false },
    {
      href: to.activity,
      label: words.nav.activity,
      icon: History,
      at: ['activity'],
      tabbed: false,
    },
    ...(studioRoles(me).some
      ? [
          {
            href: to.studio,
            label: words.nav.studio,
            icon: PencilRuler,
            at: ['studio', 'version', 'trial'],
            tabbed: false,
          },
        ]
      : []),
  ]
  return (
    <header className="top-bar">
      <Link href={to.sessions} className="brand" aria-label={words.nav.home}>
        <Mark />
        <span className="brand-name">{words.product}</span>
        <span className="brand-org">{plain(me.tenant.name)}</span>
      </Link>
      <nav className="top-nav" aria-label={words.nav.main}>
        {links.map(({ href, label, icon: Icon, at, tabbed }) => (
          <Link
            key={href}
            href={href}
            title={label}
            className={classes('top-link', tabbed && 'top-link-tabbed')}
            aria-current={at.includes(route.at) ? 'page' : undefined}
          >
            <Icon aria-hidden="true" size={17} />
            <span className="top-link-label">{label}</span>
            {href === to.approvals && <Badge n={waiting} label={words.nav.waiting(waiting)} />}
          </Link>
        ))}
      </nav>
      {staffOf(me).writes && (
        <Link
          className="icon-button freeze-link"
          href={to.freezes}
          aria-label={words.nav.freezes}
          title={words.nav.freezes}
        >
          <Snowflake aria-hidden="true" size={18} />
        </Link>
      )}
      <OrganisationMenu me={me} route={route} />
      <LineDot />
      <UserMenu me={me} />
    </header>
  )
}
