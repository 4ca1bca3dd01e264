import type { LucideIcon } from 'lucide-react'
import type { ButtonHTMLAttributes, ReactNode, Ref } from 'react'
import { fullTime } from '../lib/text.ts'

export const classes = (...names: readonly (string | false | null | undefined)[]): string =>
  names.filter(Boolean).join(' ')

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  readonly look?: 'plain' | 'primary' | 'quiet' | 'danger'
  readonly icon?: LucideIcon
  readonly small?: boolean
  readonly ref?: Ref<HTMLButtonElement>
}

export function Button({ look = 'plain', icon: Icon, small, className, ...rest }: ButtonProps) {
  const { children, ...props } = rest
  return (
    <button
      type="button"
      className={classes('button', `button-${look}`, small && 'button-small', className)}
      {...props}
    >
      {Icon && <Icon aria-hidden="true" size={small ? 14 : 16} />}
      {children}
    </button>
  )
}

/** A button whose icon needs words: they are its name and its tooltip. */
export function IconButton({
  icon: Icon,
  label,
  className,
  ...rest
}: Omit<ButtonProps, 'children'> & { readonly icon: LucideIcon; readonly label: string }) {
  const { look: _look, small: _small, ...props } = rest
  return (
    <button
      type="button"
      className={classes('icon-button', className)}
      aria-label={label}
      title={label}
      {...props}
    >
      <Icon aria-hidden="true" size={18} />
    </button>
  )
}

export type Tone = 'neutral' | 'accent' | 'good' | 'warn' | 'bad'

export function Chip({
  tone = 'neutral',
  icon: Icon,
  title,
  children,
}: {
  readonly tone?: Tone
  readonly icon?: LucideIcon
  readonly title?: string
  readonly children: ReactNode
}) {
  return (
    <span className={`chip chip-${tone}`} title={title}>
      {Icon && <Icon aria-hidden="true" size={13} />}
      {children}
    </span>
  )
}

export function Time({ iso, children }: { readonly iso: string; readonly children: ReactNode }) {
  return (
    <time dateTime={iso} title={fullTime(iso)}>
      {children}
    </time>
  )
}

export function Hidden({ children }: { readonly children: ReactNode }) {
  return <span className="visually-hidden">{children}</span>
}

export function Badge({ n, label }: { readonly n: number; readonly label: string }) {
  if (n === 0) return null
  return (
    <span className="badge">
      <span aria-hidden="true">{n > 99 ? '99+' : n}</span>
      <Hidden>{label}</Hidden>
    </span>
  )
}

export function Mark({ size = 26 }: { readonly size?: number }) {
  return (
    <svg className="mark" width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="9" fill="currentColor" />
      <path className="mark-line" d="M9 8v10a6 6 0 0 0 6 6h8" />
      <path className="mark-head" d="M19 19.5 23.5 24 19 28.5" />
    </svg>
  )
}
