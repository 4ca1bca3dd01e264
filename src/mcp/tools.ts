import type { ToolArguments, ToolName, ToolResult } from '../../schema/tools.ts'
import type { AgentCaller } from '../callers.ts'
import type { Result } from '../fault.ts'

/** What a call knows of its own connection: when to stop waiting, and whom to tell meanwhile. */
export type ToolExtra = {
  /** Aborted when the connection is gone. It cancels a wait, never what has been written. */
  readonly signal: AbortSignal
  /** Present only when the client asked to be told. */
  readonly progress?: (message: string, elapsedSeconds: number) => void
}

/** What stands behind each tool: one flow a tool, by its dotted name. */
export type IamTools = {
  readonly [Name in ToolName]: (
    caller: AgentCaller,
    args: ToolArguments<Name>,
    extra: ToolExtra,
  ) => Promise<Result<ToolResult<Name>>>
}
