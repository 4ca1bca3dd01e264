import { ListChecks } from 'lucide-react'
import { lazy, type ReactNode, Suspense, useState } from 'react'
import { Button } from '../ui/parts.tsx'
import { words } from '../words.ts'

// Only when several wait, and only when it is asked for.
const BatchSheet = lazy(() => import('./batch.tsx'))

/**
 * The sheet on which several requests are answered at once, and the button that opens it; one alone has its card. The
 * sheet stays when nothing waits any more, so that the results can be read.
 */
export function useBatch(
  waiting: number,
  small = false,
): { readonly button: ReactNode; readonly sheet: ReactNode } {
  const [open, setOpen] = useState(false)
  return {
    button: waiting > 1 && (
      <Button icon={ListChecks} small={small} onClick={() => setOpen(true)}>
        {words.batch.open}
      </Button>
    ),
    sheet: open && (
      <Suspense>
        <BatchSheet onClose={() => setOpen(false)} />
      </Suspense>
    ),
  }
}
