import { CircleCheck, TriangleAlert, X } from 'lucide-react'
import { type ReactNode, useEffect, useId, useRef } from 'react'
import { type RecordDetail, useRecord } from '../api/staff.ts'
import { fullTime, plain } from '../lib/text.ts'
import { Link, navigate, searchWith } from '../router.tsx'
import { IconButton } from '../ui/parts.tsx'
import { ErrorState, Skeleton } from '../ui/states.tsx'
import { activityWords as says } from '../words/activity.ts'
import { words } from '../words.ts'
import { aboutWords, howWords, jsonText, reasonWords, type Titles } from './says.ts'

function Fact({ name, children }: { readonly name: string; readonly children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

function Decision({ decision }: { readonly decision: NonNullable<RecordDetail['decision']> }) {
  const layers: Readonly<Record<string, string>> = says.layer
  const { rule } = decision
  return (
    <>
      <Fact name={says.decidedBy}>{layers[decision.layer] ?? plain(decision.layer)}</Fact>
      <Fact name={says.why}>
        {reasonWords(decision.reason)} <code>{decision.reason}</code>
        <span className="muted activity-how">{plain(decision.says)}</span>
      </Fact>
      {rule && (
        <Fact name={says.rule}>
          {says.ruleIs(rule.effect, rule.status, fullTime(rule.created_at))}{' '}
          <code>{plain(rule.id)}</code>
        </Fact>
      )}
    </>
  )
}

function ChainState({ chain }: { readonly chain: RecordDetail['chain'] }) {
  const { ok, problem = '', checkpoint } = chain
  return (
    <>
      <Fact name={says.chain}>
        <span className={ok ? 'verdict verdict-good' : 'verdict verdict-bad'}>
          {ok ? (
            <CircleCheck aria-hidden="true" size={16} />
          ) : (
            <TriangleAlert aria-hidden="true" size={16} />
          )}
          {ok ? says.chainOk : says.chainBad(says.problem[problem] ?? plain(problem))}
        </span>
      </Fact>
      <Fact name={says.checkpoint}>
        {checkpoint === undefined
          ? says.notAnchored
          : says.anchored(checkpoint.n, fullTime(checkpoint.at))}
      </Fact>
    </>
  )
}

function Detail({ detail, titles }: { readonly detail: RecordDetail; readonly titles: Titles }) {
  const { record, decision, chain } = detail
  return (
    <>
      <p dir="auto">{[aboutWords(record, titles), howWords(record)].filter(Boolean).join(': ')}</p>
      <dl className="activity-facts">
        <Fact name={says.recordColumn.at}>{fullTime(record.at)}</Fact>
        {decision && <Decision decision={decision} />}
        <ChainState chain={chain} />
        <Fact name={says.hash}>
          <code>{record.hash}</code>
        </Fact>
        <Fact name={says.prevHash}>
          <code>{record.prev_hash === '' ? '–' : record.prev_hash}</code>
        </Fact>
      </dl>
      <p className="activity-buttons">
        {chain.prev_id !== undefined && (
          <Link className="link" href={searchWith({ record: chain.prev_id })}>
            {says.before}
          </Link>
        )}
        {chain.next_id !== undefined && (
          <Link className="link" href={searchWith({ record: chain.next_id })}>
            {says.after}
          </Link>
        )}
      </p>
      <h3>{says.json}</h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, so keys have to reach it. */}
      <pre className="activity-json" tabIndex={0}>
        {jsonText(record)}
      </pre>
    </>
  )
}

/** One record beside the list: what decided, whether its place in the chain holds, and all of it as stored. */
export function RecordDrawer({ id, titles }: { readonly id: string; readonly titles: Titles }) {
  const record = useRecord(id)
  const dialog = useRef<HTMLDialogElement>(null)
  const heading = useId()
  const close = () => navigate(searchWith({ record: null }))
  useEffect(() => {
    const element = dialog.current
    if (element && !element.open) element.showModal()
    return () => element?.close()
  }, [])
  const onClose = () => {
    if (new URLSearchParams(location.search).has('record')) close()
  }
  return (
    <dialog
      ref={dialog}
      className="drawer drawer-right record-drawer"
      aria-labelledby={heading}
      onClose={onClose}
    >
      <div className="record-body">
        <div className="record-head">
          <h2 id={heading}>{record.data ? says.type[record.data.record.type] : says.record}</h2>
          <IconButton icon={X} label={words.close} onClick={close} />
        </div>
        {record.isPending && <Skeleton label={words.state.loading} rows={5} />}
        {record.error && !record.data && (
          <ErrorState
            error={record.error}
            what={says.recordFailed}
            onRetry={() => record.refetch()}
          />
        )}
        {record.data && <Detail detail={record.data} titles={titles} />}
      </div>
    </dialog>
  )
}
