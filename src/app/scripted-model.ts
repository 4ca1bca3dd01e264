import type {
  LanguageModelV3,
  LanguageModelV3CallOptions,
  LanguageModelV3StreamPart,
} from '@ai-sdk/provider'
import { emailDrafter, type NextStep, renewalBriefs, type Told } from './script.ts'

/** Words come a few at a time, as from a model that thinks. */
const WORDS_A_DELTA = 3
const DELTA_MILLIS = 15

type Prompt = LanguageModelV3CallOptions['prompt']

/** The prompt as the script reads it: each tool call beside its answer. */
export function toldBy(prompt: Prompt): readonly Told[] {
  const args = new Map<string, Record<string, unknown>>()
  const told: Told[] = []
  for (const message of prompt) {
    if (message.role === 'system') continue
    for (const part of message.content) {
      if (part.type === 'text')
        told.push({ from: message.role === 'user' ? 'user' : 'model', text: part.text })
      if (part.type === 'tool-call') args.set(part.toolCallId, objectOf(part.input))
      if (part.type === 'tool-result' && part.output.type === 'json')
        told.push({
          from: 'tool',
          tool: part.toolName,
          args: args.get(part.toolCallId) ?? {},
          result: objectOf(part.output.value),
        })
    }
  }
  return told
}

const objectOf = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null ? { ...value } : {}

const usage = {
  inputTokens: { total: 0, noCache: 0, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 0, text: 0, reasoning: 0 },
}

function* partsOf(step: NextStep, id: string): Generator<LanguageModelV3StreamPart> {
  yield { type: 'stream-start', warnings: [] }
  if (step.text !== '') {
    yield { type: 'text-start', id: 'text' }
    const words = step.text.split(/(?<=\s)/)
    for (let i = 0; i < words.length; i += WORDS_A_DELTA)
      yield { type: 'text-delta', id: 'text', delta: words.slice(i, i + WORDS_A_DELTA).join('') }
    yield { type: 'text-end', id: 'text' }
  }
  if (step.call)
    yield {
      type: 'tool-call',
      toolCallId: id,
      toolName: step.call.tool,
      input: JSON.stringify(step.call.args),
    }
  const unified = step.call ? 'tool-calls' : 'stop'
  yield { type: 'finish', usage, finishReason: { unified, raw: undefined } }
}

/**
 * The default brain: the same model interface that a real one has, with a script behind it. Which script is by the
 * template, as a real model would be told in its system prompt.
 */
export function scriptedModel(template: string): LanguageModelV3 {
  const script = template === 'email-drafter' ? emailDrafter : renewalBriefs
  const next = (options: LanguageModelV3CallOptions) => {
    const told = toldBy(options.prompt)
    return { step: script(told), id: `call_${told.length}_${crypto.randomUUID().slice(0, 8)}` }
  }
  return {
    specificationVersion: 'v3',
    provider: 'scripted',
    modelId: template,
    supportedUrls: {},
    doGenerate: async (options) => {
      const { step, id } = next(options)
      return {
        content: [
          ...(step.text === '' ? [] : [{ type: 'text' as const, text: step.text }]),
          ...(step.call
            ? [
                {
                  type: 'tool-call' as const,
                  toolCallId: id,
                  toolName: step.call.tool,
                  input: JSON.stringify(step.call.args),
                },
              ]
            : []),
        ],
        finishReason: { unified: step.call ? 'tool-calls' : 'stop', raw: undefined },
        usage,
        warnings: [],
      }
    },
    doStream: async (options) => {
      const { step, id } = next(options)
      const parts = partsOf(step, id)
      return {
        stream: new ReadableStream<LanguageModelV3StreamPart>({
          async pull(controller) {
            const { value, done } = parts.next()
            if (done) return controller.close()
            if (value.type === 'text-delta') await new Promise((r) => setTimeout(r, DELTA_MILLIS))
            controller.enqueue(value)
          },
        }),
      }
    },
  }
}
