import { useMutation, useQueryClient } from '@tanstack/react-query'
import { ChevronDown } from 'lucide-react'
import { useRef } from 'react'
import { MODES } from '../../../src/core/vocabulary.ts'
import { call, newKey } from '../api/http.ts'
import { keys, peopleApi, useTenant } from '../api/queries.ts'
import type { Mode, SessionView } from '../api/types.ts'
import { isLive } from '../lib/sessions.ts'
import { MODE_ICON, ModeMark } from '../ui/marks.tsx'
import { WriteError } from '../ui/states.tsx'
import { toast } from '../ui/toasts.tsx'
import { words } from '../words.ts'

/** The session's mode. It can be tightened in place; a looser one needs a new session, and says so. */
export function ModeMenu({ session }: { readonly session: SessionView }) {
  const tenant = useTenant()
  const client = useQueryClient()
  const menu = useRef<HTMLDetailsElement>(null)
  const tighten = useMutation({
    mutationFn: (mode: Mode) =>
      call<SessionView>(`${peopleApi(tenant)}/sessions/${encodeURIComponent(session.id)}`, {
        method: 'PATCH',
        body: { mode },
        idempotencyKey: newKey(),
      }),
    onSuccess: (view) => {
      client.setQueryData(keys.session(tenant, session.id), view)
      void client.invalidateQueries({ queryKey: keys.sessions(tenant) })
      if (menu.current) menu.current.open = false
      toast(words.mode.tightened(words.mode[view.mode].name))
    },
  })
  if (!isLive(session)) return <ModeMark mode={session.mode} />
  const now = MODES.indexOf(session.mode)
  const Icon = MODE_ICON[session.mode]
  return (
    <details className="menu mode-menu" ref={menu} name="menu">
      <summary aria-label={words.mode.chip(words.mode[session.mode].name)}>
        <span className={`chip chip-button chip-${session.mode === 'bypass' ? 'warn' : 'neutral'}`}>
          <Icon aria-hidden="true" size={13} />
          {words.mode[session.mode].name}
          <ChevronDown aria-hidden="true" size={13} />
        </span>
      </summary>
      <ul className="menu-body">
        {MODES.map((mode, looseness) => (
          <li key={mode}>
            <button
              type="button"
              className="menu-item"
              disabled={looseness >= now || tighten.isPending}
              onClick={() => tighten.mutate(mode)}
            >
              <strong>
                {looseness < now
                  ? words.mode.tightenTo(words.mode[mode].name)
                  : words.mode[mode].name}
              </strong>
              <span>{looseness > now ? words.mode.looser : words.mode[mode].means}</span>
            </button>
          </li>
        ))}
        <WriteError error={tighten.error} />
      </ul>
    </details>
  )
}
