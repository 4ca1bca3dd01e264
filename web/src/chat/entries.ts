import type { Message, RequestView } from '../api/types.ts'

/** The conversation in order: words, prompts, and runs of steps folded together. A prompt is never inside a fold. */
export type Entry =
  | { readonly kind: 'words'; readonly at: string; readonly message: Message }
  | { readonly kind: 'prompt'; readonly at: string; readonly request: RequestView }
  | { readonly kind: 'steps'; readonly at: string; readonly steps: readonly Message[] }

export function entriesOf(
  messages: readonly Message[],
  requests: readonly RequestView[],
): readonly Entry[] {
  const all: Entry[] = [
    ...messages.map(
      (message): Entry =>
        message.role === 'step'
          ? { kind: 'steps', at: message.at, steps: [message] }
          : { kind: 'words', at: message.at, message },
    ),
    ...requests.map((request): Entry => ({ kind: 'prompt', at: request.created_at, request })),
  ].sort((a, b) => a.at.localeCompare(b.at))
  const folded: Entry[] = []
  for (const entry of all) {
    const last = folded.at(-1)
    const [step] = entry.kind === 'steps' ? entry.steps : []
    const [before] = last?.kind === 'steps' ? last.steps : []
    if (last?.kind === 'steps' && step && before?.session_id === step.session_id)
      folded[folded.length - 1] = { ...last, steps: [...last.steps, step] }
    else folded.push(entry)
  }
  return folded
}
