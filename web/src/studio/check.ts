import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { call, Refused } from '../api/http.ts'
import { peopleApi, useTenant } from '../api/queries.ts'
import { studioKey, type Validated } from '../api/studio.ts'
import { studio } from '../words/studio.ts'
import { draftOf, type Form, type Problem, pointerOfPath, unreadable } from './form.ts'

/** The draft, checked by the server while it is written: the same check that submitting and publishing make. */
const CHECK_MILLIS = 400

function useSettled<Value>(value: Value, millis: number): Value {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), millis)
    return () => clearTimeout(timer)
  }, [value, millis])
  return settled
}
export const useLater = useSettled

export type Checked = {
  readonly busy: boolean
  readonly error: unknown
  readonly problems: readonly Problem[]
  readonly result: Validated | undefined
  /** The problems of a field, a list's row (by its key), or a part of that row. */
  readonly at: (pointer: string) => readonly Problem[]
  readonly ofRow: (
    list: 'ceiling' | 'sensitive' | 'children',
    key: string,
    member?: string,
  ) => readonly Problem[]
}

type Sent = {
  readonly form: Form
  readonly result?: Validated
  readonly problems: readonly Problem[]
}

const keyAt = (form: Form, list: 'ceiling' | 'sensitive' | 'children', i: number) =>
  list === 'children' ? form.children[i]?.template : form[list][i]?.key

export function useCheck(name: string, form: Form): Checked {
  const tenant = useTenant()
  const settled = useSettled(form, CHECK_MILLIS)
  const local = unreadable(settled, studio.edit)
  const query = useQuery({
    queryKey: studioKey(tenant, 'check', name, settled),
    enabled: local.length === 0,
    gcTime: 0,
    placeholderData: keepPreviousData,
    queryFn: async ({ signal }): Promise<Sent> => {
      try {
        const result = await call<Validated>(`${peopleApi(tenant)}/templates/validate`, {
          method: 'POST',
          body: { name, draft: draftOf(settled) },
          signal,
        })
        return { form: settled, result, problems: result.problems }
      } catch (error) {
        // What the server cannot even take as a draft names its fields as well.
        if (!(error instanceof Refused) || error.problem.errors === undefined) throw error
        const problems = error.problem.errors.map(({ path, message }) => ({
          pointer: pointerOfPath(path),
          message,
        }))
        return { form: settled, problems }
      }
    },
  })
  const sent: Sent | undefined = local.length > 0 ? { form: settled, problems: local } : query.data
  const problems = sent?.problems ?? []
  const under = (pointer: string) =>
    problems.filter((one) => one.pointer === pointer || one.pointer.startsWith(`${pointer}/`))
  return {
    busy: settled !== form || (local.length === 0 && query.isFetching),
    error: local.length === 0 ? query.error : null,
    problems,
    result: local.length === 0 ? sent?.result : undefined,
    at: under,
    // Rows may have moved since they were checked: each is found by its own key.
    ofRow: (list, key, member) => {
      const i = sent?.form[list].findIndex((_, at) => keyAt(sent.form, list, at) === key) ?? -1
      return i < 0 ? [] : under(`/${list}/${i}${member === undefined ? '' : `/${member}`}`)
    },
  }
}
