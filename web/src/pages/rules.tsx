import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Plus, Trash2 } from 'lucide-react'
import { useState } from 'react'
import { call, newKey } from '../api/http.ts'
import { keys, peopleApi, useRules, useTenant } from '../api/queries.ts'
import type { RuleNew, RuleView } from '../api/types.ts'
import { useNow } from '../lib/hooks.ts'
import { ago, date, narrowWords, plain } from '../lib/text.ts'
import { Link, paths } from '../router.tsx'
import { Button, Chip, Time } from '../ui/parts.tsx'
import { Empty, ErrorState, Skeleton, WriteError } from '../ui/states.tsx'
import { toast } from '../ui/toasts.tsx'
import { words } from '../words.ts'
import { Changes } from './changes.tsx'
import { Page } from './page.tsx'
import { RuleForm } from './rule-form.tsx'

const EFFECT_TONE = { allow: 'good', deny: 'bad', ask: 'warn' } as const

const again = (rule: RuleView): RuleNew => ({
  template: rule.template,
  permission: rule.permission,
  effect: rule.effect,
  ...(rule.resource === undefined ? {} : { resource: rule.resource }),
  ...(rule.narrow === undefined ? {} : { narrow: rule.narrow }),
  ...(rule.expires_at === undefined ? {} : { expires_at: rule.expires_at }),
})

/** Deletes at once; the toast brings the same rule back. */
function useDelete() {
  const tenant = useTenant()
  const client = useQueryClient()
  const stale = () => client.invalidateQueries({ queryKey: keys.rules(tenant) })
  const restore = useMutation({
    mutationFn: (rule: RuleView) =>
      call<RuleView>(`${peopleApi(tenant)}/rules`, {
        method: 'POST',
        body: again(rule),
        idempotencyKey: newKey(),
      }),
    onSuccess: () => toast(words.rules.restored),
    onError: () => toast(words.rules.notRestored),
    onSettled: stale,
  })
  return useMutation({
    mutationFn: (rule: RuleView) =>
      call<void>(`${peopleApi(tenant)}/rules/${encodeURIComponent(rule.id)}`, {
        method: 'DELETE',
        idempotencyKey: newKey(),
      }),
    onSuccess: (_, rule) =>
      toast(words.rules.deleted(rule.title), {
        label: words.undo,
        run: () => restore.mutate(rule),
      }),
    onSettled: stale,
  })
}

function RuleRow({
  rule,
  onDelete,
  busy,
}: {
  readonly rule: RuleView
  readonly onDelete: () => void
  readonly busy: boolean
}) {
  const to = paths(useTenant())
  const now = useNow(60_000)
  return (
    <tr data-rule={rule.id}>
      <td data-label={words.rules.column.effect}>
        <Chip tone={EFFECT_TONE[rule.effect]}>{words.rules.effect[rule.effect]}</Chip>
      </td>
      <th scope="row" data-label={words.rules.column.permission}>
        <span>{rule.title}</span>
        <code>{rule.permission}</code>
        {rule.resource !== undefined && <code dir="auto">{plain(rule.resource)}</code>}
        {rule.narrow !== undefined && (
          <span className="muted" dir="auto">
            {words.card.only} {narrowWords(rule.narrow)}
          </span>
        )}
      </th>
      <td data-label={words.rules.column.template}>{plain(rule.template)}</td>
      <td data-label={words.rules.column.created}>
        <Time iso={rule.created_at}>{ago(rule.created_at, now)}</Time>
        {rule.created_from !== undefined && (
          <Link className="link" href={to.approval(rule.created_from)}>
            {words.rules.from}
          </Link>
        )}
      </td>
      <td data-label={words.rules.column.expires}>
        {rule.expires_at ? (
          <Time iso={rule.expires_at}>{date(rule.expires_at)}</Time>
        ) : (
          words.rules.untilRemoved
        )}
      </td>
      <td data-label={words.rules.column.state}>
        {rule.status === 'active' ? (
          words.rules.active
        ) : (
          <Chip tone="warn" title={words.rules.suspendedWhy}>
            {words.rules.suspended}
          </Chip>
        )}
      </td>
      <td className="rule-actions">
        <Button
          look="quiet"
          small
          icon={Trash2}
          disabled={busy}
          aria-label={words.rules.deleteOne(rule.title)}
          onClick={onDelete}
        >
          {words.rules.delete}
        </Button>
      </td>
    </tr>
  )
}

function RuleTable({ rules }: { readonly rules: readonly RuleView[] }) {
  const remove = useDelete()
  return (
    <>
      <WriteError error={remove.error} what={words.rules.notDeleted} />
      <table className="rules">
        <caption className="visually-hidden">{words.rules.title}</caption>
        <thead>
          <tr>
            {Object.entries(words.rules.column).map(([key, label]) => (
              <th key={key} scope="col">
                {label}
              </th>
            ))}
            <th scope="col">
              <span className="visually-hidden">{words.rules.delete}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rules.map((rule) => (
            <RuleRow
              key={rule.id}
              rule={rule}
              busy={remove.isPending}
              onDelete={() => remove.mutate(rule)}
            />
          ))}
        </tbody>
      </table>
    </>
  )
}

/** Answers that a person has given for good, and the way back from each. */
export default function Rules() {
  const rules = useRules()
  const [adding, setAdding] = useState(false)
  const items = rules.data?.items ?? []
  return (
    <Page
      title={words.rules.title}
      lead={words.rules.lead}
      actions={
        <Button icon={Plus} aria-expanded={adding} onClick={() => setAdding(!adding)}>
          {words.rules.add}
        </Button>
      }
    >
      <Changes />
      {adding && <RuleForm rules={items} onDone={() => setAdding(false)} />}
      {rules.isPending && <Skeleton label={words.state.loading} rows={4} />}
      {rules.error && !rules.data && (
        <ErrorState error={rules.error} what={words.rules.failed} onRetry={() => rules.refetch()} />
      )}
      {rules.data && items.length === 0 && (
        <Empty title={words.rules.none}>
          {words.rules.noneWhy}
          <span className="example">{words.rules.example}</span>
        </Empty>
      )}
      {items.length > 0 && <RuleTable rules={items} />}
    </Page>
  )
}
