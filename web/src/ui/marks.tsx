import {
  Bot,
  Database,
  FileChartColumn,
  Gauge,
  Hand,
  Lock,
  Plug,
  Route,
  ScrollText,
  ShieldAlert,
  ShieldCheck,
  ShieldQuestion,
  Sparkles,
  UserRound,
  Wrench,
  Zap,
} from 'lucide-react'
import type { GrantView, Mode, RequestItemView } from '../api/types.ts'
import { words } from '../words.ts'
import { Chip, classes } from './parts.tsx'

/** Kinds, risks, modes and sources: an icon and a word each, never a colour alone. */
const KIND_ICON = { api: Plug, data: Database, asset: FileChartColumn, tool: Wrench } as const

export function KindMark({ kind }: { readonly kind: RequestItemView['kind'] }) {
  if (kind === undefined) return null
  const Icon = KIND_ICON[kind]
  return (
    <span className="kind">
      <Icon aria-hidden="true" size={14} />
      {words.kind[kind]}
    </span>
  )
}

const RISK_ICON = { low: ShieldCheck, medium: ShieldQuestion, high: ShieldAlert } as const
const RISK_TONE = { low: 'good', medium: 'warn', high: 'bad' } as const

export function RiskMark({ risk }: { readonly risk: RequestItemView['risk'] }) {
  if (risk === undefined) return null
  return (
    <Chip tone={RISK_TONE[risk]} icon={RISK_ICON[risk]}>
      {words.risk[risk]}
    </Chip>
  )
}

export function SensitiveMark() {
  return (
    <Chip tone="bad" icon={Lock}>
      {words.sensitive}
    </Chip>
  )
}

export const MODE_ICON = { ask: Hand, auto: Gauge, bypass: Zap } as const

export function ModeMark({ mode }: { readonly mode: Mode }) {
  return (
    <Chip
      tone={mode === 'bypass' ? 'warn' : 'neutral'}
      icon={MODE_ICON[mode]}
      title={words.mode[mode].means}
    >
      {words.mode[mode].name}
    </Chip>
  )
}

const SOURCE_ICON = { user: UserRound, rule: ScrollText, mode: Sparkles, inherited: Route } as const

export function SourceMark({ grant }: { readonly grant: GrantView }) {
  const { by } = grant.source
  const readOnly = grant.read_only && by === 'inherited'
  return (
    <Chip icon={SOURCE_ICON[by]} title={words.source[by].means}>
      {readOnly ? words.source.inheritedReadOnly : words.source[by].name}
    </Chip>
  )
}

export function AgentMark({ live }: { readonly live?: boolean }) {
  return (
    <span className={classes('agent-mark', live && 'agent-mark-live')}>
      <Bot aria-hidden="true" size={16} />
    </span>
  )
}
