import { MODES } from '../../../src/core/vocabulary.ts'
import type { Mode } from '../api/types.ts'
import { MODE_ICON } from '../ui/marks.tsx'
import { classes } from '../ui/parts.tsx'
import { words } from '../words.ts'

/** How much is asked. A mode that is off says so, and who turned it off. */
export function ModePicker({
  mode,
  isOff,
  error,
  onMode,
}: {
  readonly mode: Mode
  readonly isOff: (mode: Mode) => boolean
  readonly error: string | null
  readonly onMode: (mode: Mode) => void
}) {
  return (
    <fieldset className="mode-picker" aria-describedby="mode-means">
      <legend>{words.start.mode}</legend>
      <div className="mode-options">
        {MODES.map((one) => {
          const Icon = MODE_ICON[one]
          const off = isOff(one)
          return (
            <label
              key={one}
              className={classes('mode-option', mode === one && 'mode-on', off && 'mode-off')}
            >
              <input
                type="radio"
                name="mode"
                value={one}
                checked={mode === one}
                disabled={off}
                onChange={() => onMode(one)}
              />
              <Icon aria-hidden="true" size={15} />
              <span>{words.mode[one].name}</span>
              {off && <span className="mode-off-words">{words.start.modeOff}</span>}
            </label>
          )
        })}
      </div>
      <p id="mode-means" className={classes('mode-means', mode === 'bypass' && 'mode-warn')}>
        {words.mode[mode].means}
      </p>
      {error && (
        <p className="field-error" role="alert">
          {error}
        </p>
      )}
    </fieldset>
  )
}
