import {
  type Context,
  type Link,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { W3CTraceContextPropagator } from '@opentelemetry/core'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base'
import type { Span, Trace } from './ports.ts'

/** Traces that are told to a collector, and how to stop: what waits is sent first. */
export type Tracing = Trace & { readonly stop: () => Promise<void> }

const WAIT_MILLIS_MAX = 1_000
const STOP_MILLIS_MAX = 3_000
const UNHURT = { get: (from: string) => from, keys: () => ['traceparent'] }

/**
 * OpenTelemetry, sent by OTLP over HTTP. Loaded only where a collector is named: without one nothing of it is in the process.
 * Spans wait in bounded memory and are sent in the background; a collector that is away costs them and nothing else. What
 * they hold is from closed lists and from statements' own text: no value, no token, nobody's name.
 *
 * `endpoint`: the collector's base URL, as in `http://localhost:4318`. Headers, sampling and bounds are read from the
 * standard's own `OTEL_…` variables.
 */
export function createTracing(endpoint: string, deployment: string): Tracing {
  const manager = new AsyncLocalStorageContextManager().enable()
  const propagator = new W3CTraceContextPropagator()
  const exporter = new OTLPTraceExporter({ url: `${endpoint.replace(/\/$/, '')}/v1/traces` })
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({
      'service.name': 'lend',
      'deployment.environment.name': deployment,
    }),
    spanProcessors: [new BatchSpanProcessor(exporter, { scheduledDelayMillis: WAIT_MILLIS_MAX })],
  })
  const tracer = provider.getTracer('lend')

  /** The span ends with the body, and is marked as failed where that throws: by what kind of error, never by its words. */
  async function inside<T>(
    of: {
      readonly name: string
      readonly kind: SpanKind
      readonly parent: Context
      readonly links?: readonly Link[]
    },
    body: (span: Span, context: Context) => Promise<T>,
  ): Promise<T> {
    const span = tracer.startSpan(
      of.name,
      { kind: of.kind, links: [...(of.links ?? [])] },
      of.parent,
    )
    const context = trace.setSpan(of.parent, span)
    try {
      const set: Span['set'] = (name, value) => void span.setAttribute(name, value)
      return await manager.with(context, () => body({ set }, context))
    } catch (error) {
      span.setStatus({ code: SpanStatusCode.ERROR })
      span.setAttribute(
        'error.type',
        error instanceof Error ? error.constructor.name : typeof error,
      )
      throw error
    } finally {
      span.end()
    }
  }
  return {
    served: (name, traceparent, body) => {
      const parent =
        traceparent === undefined
          ? ROOT_CONTEXT
          : propagator.extract(ROOT_CONTEXT, traceparent, UNHURT)
      return inside({ name, kind: SpanKind.SERVER, parent }, body)
    },
    span: (name, body) => inside({ name, kind: SpanKind.INTERNAL, parent: manager.active() }, body),
    outgoing: (name, body) => {
      const here = trace.getSpanContext(manager.active())
      const links = here === undefined ? [] : [{ context: here }]
      const of = { name, kind: SpanKind.CLIENT, parent: ROOT_CONTEXT, links }
      return inside(of, (_, context) => {
        const headers: Record<string, string> = {}
        propagator.inject(context, headers, {
          set: (to: Record<string, string>, key, value) => {
            to[key] = value
          },
        })
        return body(headers)
      })
    },
    ids: () => {
      const here = trace.getSpanContext(manager.active())
      return here === undefined ? null : { trace_id: here.traceId, span_id: here.spanId }
    },
    stop: async () => {
      let late: NodeJS.Timeout | undefined
      const enough = new Promise<void>((done) => {
        late = setTimeout(done, STOP_MILLIS_MAX)
      })
      // A collector that is away is no reason not to stop.
      await Promise.race([provider.shutdown().catch(() => undefined), enough])
      clearTimeout(late)
      manager.disable()
    },
  }
}
