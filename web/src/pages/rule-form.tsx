import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useRef, useState } from 'react'
import { RULE_EFFECTS } from '../../../src/core/vocabulary.ts'
import { call, newKey, Refused } from '../api/http.ts'
import { keys, peopleApi, useAppMe, useCatalog, useSessions, useTenant } from '../api/queries.ts'
import type { RuleNew, RuleView } from '../api/types.ts'
import { plain } from '../lib/text.ts'
import { type Expiry, expiresAt } from '../prompt/decide.ts'
import { ExpiryChoice } from '../prompt/steps.tsx'
import { Button } from '../ui/parts.tsx'
import { WriteError } from '../ui/states.tsx'
import { toast } from '../ui/toasts.tsx'
import { words } from '../words.ts'

/** Templates that the person can know of: what the app offers, what ran, and what rules are about. */
function useTemplates(rules: readonly RuleView[]): ReadonlyMap<string, string> {
  const app = useAppMe()
  const sessions = useSessions()
  return new Map([
    // In this order in the list; a later title of the same template is the better one.
    ...(app.data?.agent?.templates ?? []).map((one) => [one.name, one.title] as const),
    ...rules.map((one) => [one.template, one.template] as const),
    ...(sessions.data?.items ?? []).map(
      (one) => [one.template, one.path.at(-1) ?? one.template] as const,
    ),
  ])
}

const fieldError = (error: unknown, field: string): string | undefined =>
  error instanceof Refused
    ? error.problem.errors?.find((one) => one.path === field)?.message
    : undefined

/** An answer given before the question. */
export function RuleForm({
  rules,
  onDone,
}: {
  readonly rules: readonly RuleView[]
  readonly onDone: () => void
}) {
  const tenant = useTenant()
  const client = useQueryClient()
  const catalog = useCatalog()
  const templates = useTemplates(rules)
  const [effect, setEffect] = useState<RuleNew['effect']>('deny')
  const [template, setTemplate] = useState('')
  const [permission, setPermission] = useState('')
  const [resource, setResource] = useState('')
  const [expiry, setExpiry] = useState<Expiry>('never')
  const attempt = useRef({ of: '', key: '' })
  const create = useMutation({
    mutationFn: (rule: RuleNew) => {
      const of = JSON.stringify(rule)
      if (attempt.current.of !== of) attempt.current = { of, key: newKey() }
      return call<RuleView>(`${peopleApi(tenant)}/rules`, {
        method: 'POST',
        body: rule,
        idempotencyKey: attempt.current.key,
      })
    },
    onSuccess: (rule) => {
      toast(words.rules.saved(rule.title))
      void client.invalidateQueries({ queryKey: keys.rules(tenant) })
      onDone()
    },
  })
  const lendable = (catalog.data?.items ?? []).filter((one) => one.delegable)
  const entry = lendable.find((one) => one.id === permission)
  const needsResource = entry?.resource_hint !== undefined
  const chosen = template === '' ? ([...templates.keys()][0] ?? '') : template
  const ready = chosen !== '' && permission !== '' && (!needsResource || resource.trim() !== '')
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (!ready || create.isPending) return
    const until = expiresAt(expiry, Date.now())
    create.mutate({
      template: chosen,
      permission,
      effect,
      ...(needsResource ? { resource: resource.trim() } : {}),
      ...(until === undefined ? {} : { expires_at: until }),
    })
  }
  const resourceError = fieldError(create.error, 'resource')
  return (
    <form className="rule-form" onSubmit={submit} aria-label={words.rules.add}>
      <label className="field">
        <span>{words.rules.column.effect}</span>
        <select value={effect} onChange={(e) => setEffect(e.target.value as RuleNew['effect'])}>
          {RULE_EFFECTS.map((one) => (
            <option key={one} value={one} disabled={one === 'allow' && entry?.sensitive}>
              {words.rules.effectMeans[one]}
            </option>
          ))}
        </select>
      </label>
      <label className="field">
        <span>{words.rules.column.template}</span>
        <select value={chosen} onChange={(e) => setTemplate(e.target.value)}>
          {[...templates].map(([name, title]) => (
            <option key={name} value={name}>
              {plain(title)}
            </option>
          ))}
        </select>
      </label>
      <label className="field">
        <span>{words.rules.column.permission}</span>
        <select value={permission} onChange={(e) => setPermission(e.target.value)}>
          <option value="">{words.rules.choosePermission}</option>
          {lendable.map((one) => (
            <option key={one.id} value={one.id}>
              {one.title}
            </option>
          ))}
        </select>
      </label>
      {needsResource && (
        <label className="field">
          <span>{words.rules.resource}</span>
          <input
            value={resource}
            placeholder={entry?.resource_hint}
            aria-invalid={resourceError !== undefined}
            onChange={(e) => setResource(e.target.value)}
          />
          {resourceError && <span className="field-error">{resourceError}</span>}
        </label>
      )}
      <ExpiryChoice expiry={expiry} onChange={setExpiry} />
      {entry?.sensitive && effect === 'allow' && (
        <p className="field-error" role="alert">
          {words.rules.sensitiveNoAllow}
        </p>
      )}
      <WriteError error={create.error} what={words.rules.notSaved} />
      <div className="step-actions">
        <Button onClick={onDone}>{words.cancel}</Button>
        <Button look="primary" type="submit" aria-disabled={!ready || create.isPending}>
          {create.isPending ? words.sending : words.rules.save}
        </Button>
      </div>
    </form>
  )
}
