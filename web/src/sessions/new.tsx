import { useMutation, useQueryClient } from '@tanstack/react-query'
import { ArrowUp, Lightbulb } from 'lucide-react'
import { type FormEvent, type ReactNode, useId, useRef, useState } from 'react'
import { call, isCode, newKey, Refused } from '../api/http.ts'
import { keys, peopleApi, useAppMe, useMe, useTenant } from '../api/queries.ts'
import { startRun } from '../api/run.ts'
import type { AppMe, AppTemplate, Mode, SessionView } from '../api/types.ts'
import { useDraft } from '../lib/draft.ts'
import { COMPOSER_ID } from '../lib/focus.ts'
import { plain } from '../lib/text.ts'
import { navigate, paths } from '../router.tsx'
import { Button } from '../ui/parts.tsx'
import { Empty, ErrorState, Skeleton, WriteError } from '../ui/states.tsx'
import { words } from '../words.ts'
import { AppSignIn } from './app-sign-in.tsx'
import { ModePicker } from './mode-picker.tsx'

const TASK_MAX = 500

type Asked = { readonly template: string; readonly mode: Mode; readonly task: string }

/** The session was made, and the agent's app said no to it. */
class NotBegun extends Error {
  override readonly name = 'NotBegun'
  readonly refused: Refused
  readonly ended: boolean
  constructor(refused: Refused, ended: boolean) {
    super(refused.message)
    this.refused = refused
    this.ended = ended
  }
}

const end = (tenant: string, session: SessionView): Promise<boolean> =>
  call(`${peopleApi(tenant)}/sessions/${encodeURIComponent(session.id)}/end`, {
    method: 'POST',
    body: {},
  }).then(
    () => true,
    () => false,
  )

/** Hands a session to the agent. One that it will not take does not stay behind, live and nobody's. */
async function begin(tenant: string, session: SessionView, task: string): Promise<void> {
  try {
    await startRun(tenant, session.id, task)
  } catch (error) {
    // An earlier try had arrived after all.
    if (isCode(error, 'already_exists')) return
    // No answer says nothing: the same session is handed over once more by trying again.
    if (!(error instanceof Refused)) throw error
    throw new NotBegun(error, await end(tenant, session))
  }
}

/** Creates the session in the person's name, then hands it to the agent. A retry goes on where the first try stopped. */
function useStart(agentId: string, onStarted: () => void) {
  const tenant = useTenant()
  const client = useQueryClient()
  const attempt = useRef<{ of: string; key: string; session: SessionView | null } | null>(null)
  return useMutation({
    mutationFn: async (asked: Asked) => {
      const of = JSON.stringify(asked)
      if (attempt.current?.of !== of) {
        if (attempt.current?.session) void end(tenant, attempt.current.session)
        attempt.current = { of, key: newKey(), session: null }
      }
      const now = attempt.current
      now.session ??= await call<SessionView>(`${peopleApi(tenant)}/sessions`, {
        method: 'POST',
        body: { agent_id: agentId, ...asked },
        idempotencyKey: now.key,
      })
      await begin(tenant, now.session, asked.task)
      return now.session
    },
    onError: (error) => {
      if (!(error instanceof NotBegun)) return
      if (error.ended) attempt.current = null
      void client.invalidateQueries({ queryKey: keys.sessions(tenant) })
    },
    onSuccess: (session) => {
      attempt.current = null
      // Here and not where it is called: that screen is gone by then.
      onStarted()
      client.setQueryData(keys.session(tenant, session.id), session)
      void client.invalidateQueries({ queryKey: keys.sessions(tenant) })
      void client.invalidateQueries({ queryKey: keys.run(tenant, session.id) })
      navigate(paths(tenant).session(session.id))
    },
  })
}

function TemplatePicker({
  templates,
  chosen,
  onChoose,
}: {
  readonly templates: readonly AppTemplate[]
  readonly chosen: string
  readonly onChoose: (name: string) => void
}) {
  return (
    <label className="field">
      <span>{words.start.template}</span>
      <select value={chosen} onChange={(event) => onChoose(event.target.value)}>
        {templates.map(({ name, title }) => (
          <option key={name} value={name}>
            {plain(title)}
          </option>
        ))}
      </select>
    </label>
  )
}

function StartError({ error }: { readonly error: unknown }) {
  if (!(error instanceof NotBegun)) return <WriteError error={error} what={words.start.failed} />
  const what = `${words.start.failed} ${words.start.notBegun(error.ended)}`
  return <WriteError error={error.refused} what={what} />
}

function StartForm({
  agent,
  model,
  onSignedOut,
}: {
  readonly agent: NonNullable<AppMe['agent']>
  readonly model: AppMe['model']
  /** The app knows this person no more; `ended` when the session that it was to take up was ended again. */
  readonly onSignedOut: (ended: boolean) => void
}) {
  const [task, setTask] = useDraft('new')
  const [template, setTemplate] = useState(agent.templates[0]?.name ?? '')
  const [mode, setMode] = useState<Mode>('ask')
  // What the server has refused before is not offered again for that template.
  const [off, setOff] = useState<ReadonlySet<string>>(new Set())
  const start = useStart(agent.id, () => setTask(''))
  const hint = useId()
  const modes = agent.templates.find((one) => one.name === template)?.modes
  const isOff = (one: Mode) => off.has(`${template} ${one}`) || (modes && !modes.includes(one))
  const modeRefused = isCode(start.error, 'mode_not_allowed')
  const ready = task.trim() !== '' && !start.isPending && !isOff(mode)

  const submit = (event?: FormEvent) => {
    event?.preventDefault()
    if (!ready) return
    start.mutate(
      { template, mode, task: task.trim() },
      {
        onError: (error) => {
          if (error instanceof NotBegun && error.refused.status === 401) onSignedOut(error.ended)
          if (isCode(error, 'mode_not_allowed')) setOff(new Set(off).add(`${template} ${mode}`))
        },
      },
    )
  }
  return (
    <form className="start" onSubmit={submit}>
      <label className="start-task">
        <span className="visually-hidden">{words.start.task}</span>
        <textarea
          id={COMPOSER_ID}
          value={task}
          rows={3}
          maxLength={TASK_MAX}
          placeholder={words.start.placeholder}
          aria-describedby={hint}
          onChange={(event) => setTask(event.target.value)}
          onKeyDown={(event) => {
            if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
            event.preventDefault()
            submit()
          }}
        />
      </label>
      <div className="start-options">
        {agent.templates.length > 1 ? (
          <TemplatePicker
            templates={agent.templates}
            chosen={template}
            onChoose={(name) => {
              setTemplate(name)
              start.reset()
            }}
          />
        ) : (
          <p className="start-template">
            <span className="muted">{words.start.template}</span>
            <strong>{plain(agent.templates[0]?.title ?? '')}</strong>
          </p>
        )}
        <ModePicker
          mode={mode}
          isOff={(one) => isOff(one) === true}
          error={modeRefused ? words.start.modeRefused(words.mode[mode].name) : null}
          onMode={(one) => {
            setMode(one)
            start.reset()
          }}
        />
      </div>
      {!modeRefused && <StartError error={start.error} />}
      <div className="start-foot">
        <p id={hint} className="muted">
          {words.start.zero}
          {model && (
            <>
              {' '}
              <span className="model">{words.start.model(model.kind, plain(model.name))}</span>
            </>
          )}
        </p>
        <Button look="primary" icon={ArrowUp} type="submit" aria-disabled={!ready}>
          {start.isPending ? words.start.starting : words.start.start}
        </Button>
      </div>
      {model?.kind === 'scripted' && task === '' && (
        <Button
          look="quiet"
          icon={Lightbulb}
          className="start-suggest"
          onClick={() => setTask(words.start.suggestion)}
        >
          {words.start.suggestion}
        </Button>
      )}
    </form>
  )
}

/** The middle pane before a session: what should the agent do, on which terms. */
export function NewSession({ actions }: { readonly actions: ReactNode }) {
  const me = useMe()
  const app = useAppMe()
  const agent = app.data?.agent
  const [cutOff, setCutOff] = useState<{ readonly ended: boolean } | null>(null)
  const first = plain(me.data?.name ?? '').split(' ')[0] ?? ''
  return (
    <main id="main" className="new-session" tabIndex={-1}>
      <div className="chat-actions">{actions}</div>
      <div className="new-session-body">
        <h1>{words.start.title(first)}</h1>
        <p className="lead">{words.start.lead}</p>
        {app.isPending && <Skeleton label={words.state.loading} />}
        {app.error && !app.data && (
          <ErrorState
            error={app.error}
            what={words.start.appFailed}
            onRetry={() => app.refetch()}
          />
        )}
        {app.data === null && <Empty title={words.start.noApp}>{words.start.noAppWhy}</Empty>}
        {app.data && !app.data.signed_in && (
          <AppSignIn note={cutOff ? words.start.signedOutMidway(cutOff.ended) : undefined} />
        )}
        {app.data?.signed_in && !agent && (
          <Empty title={words.start.noAgent}>{words.start.noAgentWhy}</Empty>
        )}
        {app.data?.signed_in && agent && (
          <StartForm
            agent={agent}
            model={app.data.model}
            onSignedOut={(ended) => {
              setCutOff({ ended })
              void app.refetch()
            }}
          />
        )}
      </div>
    </main>
  )
}
