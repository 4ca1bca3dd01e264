import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Cost } from './rows/cost.ts'
import type { Compared, Row } from './support/rounds.ts'

export type Report = {
  readonly machine: Readonly<Record<string, unknown>>
  readonly rows: readonly Row[]
  readonly costs: readonly Cost[]
}

const isCompared = (row: Row): row is Compared => 'lend' in row

function amount(value: number, unit: Compared['unit']): string {
  if (unit === '/s') return `${Math.round(value).toLocaleString('en')}/s`
  return unit === 'ms' ? `${value.toFixed(2)} ms` : `${value.toFixed(2)} s`
}

function cells(row: Row): readonly string[] {
  if (!isCompared(row)) return [row.row, row.what, '', '', '', '', row.why]
  const met = [...(row.met === null ? [] : [row.met ? 'yes' : 'no']), row.note ?? []]
    .flat()
    .join('; ')
  return [
    row.row,
    row.what,
    amount(row.lend, row.unit),
    row.other === null ? '' : `${amount(row.other.value, row.unit)} (${row.other.name})`,
    row.ratio === null ? '' : row.ratio.toFixed(2),
    row.reach,
    met,
  ]
}

const HEAD = ['Row', 'Lend / peer or floor', 'Lend', 'Peer or floor', 'Ratio', 'Reach', 'Reached']

const line = (parts: readonly string[]) => `| ${parts.join(' | ')} |`

/** Columns padded, so that it reads in a terminal as it stands. */
export function tableOf(rows: readonly Row[]): string {
  const all = [HEAD, ...rows.map(cells)]
  const widths = HEAD.map((_, i) => Math.max(...all.map((row) => row[i]?.length ?? 0)))
  const padded = all.map((row) => line(row.map((cell, i) => cell.padEnd(widths[i] ?? 0))))
  const rule = line(widths.map((width) => '-'.repeat(width)))
  return [padded[0], rule, ...padded.slice(1)].join('\n')
}

export function costTable(costs: readonly Cost[]): string {
  if (costs.length === 0) return ''
  const rows = costs.map((cost) =>
    line([
      cost.call,
      String(cost.roundTrips),
      String(cost.statements),
      String(cost.transactions),
      cost.sent.map((flight) => flight.length).join(' + '),
    ]),
  )
  return [
    'What one call sends to the database, counted on the wire:',
    '',
    line(['Call', 'Round trips', 'Statements', 'Transactions', 'Statements by round trip']),
    line(['---', '---', '---', '---', '---']),
    ...rows,
  ].join('\n')
}

const escaped = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

const BAR = { height: 18, gap: 30, left: 560, width: 380 }

/** Every ratio as a bar with its rounds as dots; the line is what must be reached. */
function plotOf(rows: readonly Row[]): string {
  const shown = rows.filter(isCompared).filter((row) => row.ratio !== null)
  const height = 40 + shown.length * (BAR.height + BAR.gap)
  const parts = shown.map((row, i) => {
    const reach = Number(/[0-9.]+/.exec(row.reach)?.[0] ?? 1)
    const ratio = row.ratio ?? 0
    const most = Math.max(ratio, reach) * 1.2
    const x = (value: number) => BAR.left + (Math.min(value, most) / most) * BAR.width
    const top = 30 + i * (BAR.height + BAR.gap)
    const fill = row.met === null ? '#888' : row.met ? '#2a7' : '#c53'
    return [
      `<text x="10" y="${top + 13}">${escaped(`${row.row}  ${row.what}`)}</text>`,
      `<rect x="${BAR.left}" y="${top}" width="${x(ratio) - BAR.left}" height="${BAR.height}" fill="${fill}"/>`,
      `<line x1="${x(reach)}" x2="${x(reach)}" y1="${top - 4}" y2="${top + BAR.height + 4}" stroke="#000" stroke-width="2"/>`,
      `<text x="${x(ratio) + 6}" y="${top + 13}">${ratio.toFixed(2)}</text>`,
      `<text x="${BAR.left}" y="${top + BAR.height + 13}" fill="#666">${escaped(`reach ${row.reach}`)}</text>`,
    ].join('\n  ')
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" width="1010" height="${height}" font-family="sans-serif" font-size="11">
  <title>Lend against peers and floors of the same run</title>
  <rect width="100%" height="100%" fill="#fff"/>
  <text x="10" y="18" font-size="13">Lend against peers and floors of the same run (ratios; each bar on a scale of its own)</text>
  ${parts.join('\n  ')}
</svg>
`
}

export function writeReport(root: string, report: Report): string {
  const out = join(root, 'bench', 'out')
  mkdirSync(out, { recursive: true })
  const facts = Object.entries(report.machine).map(([name, value]) => `- ${name}: ${String(value)}`)
  const costs = costTable(report.costs)
  const table = [tableOf(report.rows), ...(costs === '' ? [] : ['', costs]), '', ...facts, ''].join(
    '\n',
  )
  writeFileSync(join(out, 'results.json'), `${JSON.stringify(report, null, 2)}\n`)
  writeFileSync(join(out, 'table.md'), table)
  writeFileSync(join(out, 'plot.svg'), plotOf(report.rows))
  return table
}
