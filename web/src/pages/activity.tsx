import { useQueryClient } from '@tanstack/react-query'
import { ArrowLeft, Download } from 'lucide-react'
import { queryOf, viewOf } from '../activity/filter.ts'
import { Filters } from '../activity/filters.tsx'
import { RecordDrawer } from '../activity/record.tsx'
import { Records } from '../activity/records.tsx'
import { Sessions } from '../activity/sessions.tsx'
import { SessionTimeline } from '../activity/timeline.tsx'
import { useCatalog, useTenant } from '../api/queries.ts'
import { exportUrl, type Query, sessionsExportUrl, useStaff } from '../api/staff.ts'
import { Link, searchWith, useSearch } from '../router.tsx'
import { classes } from '../ui/parts.tsx'
import { activityWords as says } from '../words/activity.ts'
import { Page } from './page.tsx'
import '../styles/staff.css'

const RECORD_FORMATS = ['csv', 'ndjson', 'ocsf'] as const
const SESSION_FORMATS = ['csv', 'ndjson'] as const

type File = { readonly name: string; readonly means: string; readonly url: string }

/** What each part of the screen exports: exactly what it shows, all pages of it. */
function useFiles(
  query: Query,
  of: { readonly session: string | null; readonly view: string },
): readonly File[] {
  const tenant = useTenant()
  if (of.session === null && of.view !== 'records')
    return SESSION_FORMATS.map((format) => ({
      name: says.formats[format],
      means: says.sessionFormatMeans[format],
      url: sessionsExportUrl(tenant, { ...query, format }),
    }))
  const asked = of.session === null ? query : { root: of.session }
  return RECORD_FORMATS.map((format) => ({
    name: says.formats[format],
    means: says.formatMeans[format],
    url: exportUrl(tenant, { ...asked, format }),
  }))
}

/** A file of what is shown; the server records that it was made. */
function Export({ files, means }: { readonly files: readonly File[]; readonly means: string }) {
  return (
    <details className="menu" name="menu">
      <summary className="button">
        <Download aria-hidden="true" size={16} /> {says.export}
      </summary>
      <div className="menu-body">
        <p className="muted">{means}</p>
        {files.map((file) => (
          <a key={file.name} className="menu-item menu-link-tall" href={file.url} download>
            <strong>{file.name}</strong>
            <span className="muted">{file.means}</span>
          </a>
        ))}
      </div>
    </details>
  )
}

function Views({ of, view }: { readonly of: 'sessions' | 'timeline'; readonly view: string }) {
  const views = [
    [of, view !== 'records', null],
    ['records', view === 'records', 'records'],
  ] as const
  return (
    <nav className="views" aria-label={says.views}>
      {views.map(([name, on, value]) => (
        <Link
          key={name}
          className={classes('view', on && 'view-on')}
          aria-current={on ? 'page' : undefined}
          href={searchWith({ view: value })}
        >
          {says.view[name]}
        </Link>
      ))}
    </nav>
  )
}

/** What agents did for whom: all of the organisation for auditors and org admins, one's own for everybody. */
export default function Activity() {
  const tenant = useTenant()
  const client = useQueryClient()
  const search = useSearch()
  const { reads } = useStaff()
  const catalog = useCatalog()
  const titles = new Map(catalog.data?.items.map((one) => [one.id, one.title]))
  const view = viewOf(search)
  const session = search.get('session')
  const record = search.get('record')
  const query = queryOf(search, view)
  const files = useFiles(query, { session, view })
  const refresh = () => void client.invalidateQueries({ queryKey: [tenant, 'staff'] })
  return (
    <Page
      title={says.title}
      lead={reads ? says.leadAll : says.leadOwn}
      actions={
        <Export
          files={files}
          means={
            session !== null
              ? says.exportMeansSession
              : view === 'records'
                ? says.exportMeans
                : says.exportMeansSessions
          }
        />
      }
    >
      {session === null ? (
        <>
          <Filters search={search} view={view} all={reads} onRefresh={refresh} />
          <Views of="sessions" view={view} />
          {view === 'records' ? (
            <Records query={query} titles={titles} />
          ) : (
            <Sessions query={query} />
          )}
        </>
      ) : (
        <>
          <p>
            <Link className="link back" href={searchWith({ session: null, view: null })}>
              <ArrowLeft aria-hidden="true" size={14} /> {says.back}
            </Link>
          </p>
          <SessionTimeline
            id={session}
            view={view}
            titles={titles}
            views={<Views of="timeline" view={view} />}
          />
        </>
      )}
      {record !== null && <RecordDrawer id={record} titles={titles} />}
    </Page>
  )
}
