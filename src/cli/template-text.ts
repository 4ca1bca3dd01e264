import type { z } from 'zod'
import type { templateFile, templateValidated } from '../../schema/studio.ts'

type Checked = z.output<typeof templateValidated>
type File = z.output<typeof templateFile>
type Change = Checked['diff']['items'][number]
type Place = Change['from'][number]

/** Backticks would end the code span that the words are in. */
const code = (text: string): string => `\`${text.replaceAll('`', '')}\``

const placeText = (place: Place): string =>
  [
    place.resource === undefined ? '' : ` on ${code(place.resource)}`,
    place.narrow === undefined ? '' : ` where ${code(JSON.stringify(place.narrow))}`,
  ].join('')

const placesText = (places: readonly Place[]): string =>
  places.map(placeText).filter(Boolean).join(',')

/** Why the job needs it, as the file says of what comes into the ceiling, each line quoted. */
const whyText = (file: File, one: Change): readonly string[] => {
  if (one.change === 'removed' || one.change === 'narrowed') return []
  const said = (file.ceiling ?? []).flatMap(({ permission, justification }) =>
    permission === one.permission && justification !== undefined ? [justification] : [],
  )
  return [...new Set(said)].flatMap((why) => why.split('\n').map((line) => `  > ${line}`))
}

const changeText = (one: Change): string => {
  const risk = one.risk === undefined ? 'not in the catalog' : `${one.risk} risk`
  const marks = [risk, one.sensitive ? 'sensitive' : '', one.enforced_at ?? ''].filter(Boolean)
  const places =
    one.change === 'removed'
      ? placesText(one.from)
      : one.change === 'added'
        ? placesText(one.to)
        : `${placesText(one.from) || ' everywhere'} →${placesText(one.to) || ' everywhere'}`
  return `- **${one.change}** ${code(one.permission)}${places} (${marks.join(', ')})`
}

/** A diff as Markdown, for a pull request: whether it widens, then each change with its risk and why the job needs it. */
export function templateDiffText(file: File, { diff, against }: Checked): readonly string[] {
  const { name } = file
  const since = against === undefined ? 'nothing published yet' : `${name}@${against}`
  const say = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : ['', `**${title}**`, ...lines]
  return [
    `### ${name}: ${diff.widens ? 'allows more than' : 'allows nothing new against'} ${since}`,
    ...say(
      'Items',
      diff.items.flatMap((one) => [changeText(one), ...whyText(file, one)]),
    ),
    ...say('Always asked for', diff.sensitive.map(changeText)),
    ...say('Modes', [
      ...diff.modes.added.map((mode) => `- **added** ${mode}`),
      ...diff.modes.removed.map((mode) => `- **removed** ${mode}`),
    ]),
    ...say(
      'Limits',
      diff.limits.map(
        (one) =>
          `- **${one.change}** ${one.limit}: ${one.from ?? 'unbounded'} → ${one.to ?? 'unbounded'}`,
      ),
    ),
    ...say(
      'Subagents',
      diff.children.map(
        (one) =>
          `- **${one.change}** ${one.template}: ${one.from_version ?? '-'} → ${one.to_version ?? '-'}`,
      ),
    ),
    ...(diff.context === undefined ? [] : ['', 'The instructions are others.']),
  ]
}
