import { FlaskConical, SearchX } from 'lucide-react'
import { isStatus } from '../api/http.ts'
import { useTenant } from '../api/queries.ts'
import { useRoles, useTemplate, useVersion } from '../api/studio.ts'
import { plain } from '../lib/text.ts'
import { Page } from '../pages/page.tsx'
import { Link, paths } from '../router.tsx'
import { Empty, ErrorState, Skeleton } from '../ui/states.tsx'
import { studio } from '../words/studio.ts'
import { words } from '../words.ts'
import { CommentsPart } from './comments.tsx'
import { Editor } from './editor.tsx'
import { StatusChip } from './parts.tsx'
import { Look } from './review.tsx'
import './studio.css'

/** One version: builders edit a draft of theirs, everybody else, and of any other version, looks at it. */
export default function VersionPage({
  template,
  n,
}: {
  readonly template: string
  readonly n: number
}) {
  const to = paths(useTenant())
  const version = useVersion(template, n)
  const of = useTemplate(template)
  const { builds, some } = useRoles()
  const v = version.data
  const owned = of.data?.owned === true
  const edits = v?.status === 'draft' && builds && owned
  const error = version.error ?? of.error
  const isGone = isStatus(error, 404)
  return (
    <Page
      title={v === undefined ? studio.title : `${plain(v.title)} ${studio.version(n)}`}
      lead={
        v !== undefined && (
          <span className="version-lead">
            <StatusChip status={v.status} /> <code>{v.template}</code>
            {v.sponsor !== undefined && (
              <span>{studio.look.sponsorIs(plain(v.sponsor.name ?? v.sponsor.id))}</span>
            )}
          </span>
        )
      }
      actions={
        <div className="page-actions">
          <Link className="button" href={to.studio}>
            {studio.look.back}
          </Link>
          {owned && some && (
            <Link className="button" href={to.trial(template, n)}>
              <FlaskConical aria-hidden="true" size={16} /> {studio.look.try}
            </Link>
          )}
        </div>
      }
    >
      {(version.isPending || of.isPending) && <Skeleton label={words.state.loading} rows={5} />}
      {isGone && (
        <Empty icon={SearchX} title={studio.look.gone}>
          {studio.look.goneWhy}
        </Empty>
      )}
      {error && !isGone && (v === undefined || of.data === undefined) && (
        <ErrorState
          error={error}
          what={studio.look.failed}
          onRetry={() => Promise.all([version.refetch(), of.refetch()])}
        />
      )}
      {v !== undefined &&
        of.data !== undefined &&
        (edits ? (
          <>
            <Editor version={v} />
            <CommentsPart version={v} />
          </>
        ) : (
          <Look version={v} owned={owned} />
        ))}
    </Page>
  )
}
