import { useMutation, useQueryClient } from '@tanstack/react-query'
import { ArrowUp } from 'lucide-react'
import { isCode } from '../api/http.ts'
import { keys, useAppMe, useTenant } from '../api/queries.ts'
import { startRun } from '../api/run.ts'
import type { SessionView } from '../api/types.ts'
import { Button } from '../ui/parts.tsx'
import { Empty, WriteError } from '../ui/states.tsx'
import { words } from '../words.ts'

/** A session that its user made and that no app has claimed: its start was cut off, or another app is still to come. */
export function NotTaken({ session }: { readonly session: SessionView }) {
  const tenant = useTenant()
  const client = useQueryClient()
  const app = useAppMe()
  const { task } = session
  // Only the app whose agent it is made for could take it.
  const ours = app.data?.agent?.id === session.agent_id
  const start = useMutation({
    mutationFn: (what: string) =>
      startRun(tenant, session.id, what).catch((error: unknown) => {
        if (!isCode(error, 'already_exists')) throw error
      }),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.run(tenant, session.id) })
      void client.invalidateQueries({ queryKey: keys.sessions(tenant) })
    },
  })
  return (
    <>
      <Empty
        title={words.chat.notTaken}
        action={
          ours &&
          task !== null && (
            <Button
              look="primary"
              icon={ArrowUp}
              disabled={start.isPending}
              onClick={() => start.mutate(task)}
            >
              {start.isPending ? words.sending : words.chat.handOver}
            </Button>
          )
        }
      >
        {words.chat.notTakenWhy}
      </Empty>
      <WriteError error={start.error} what={words.chat.notHandedOver} />
    </>
  )
}
