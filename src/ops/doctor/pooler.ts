import { lookAtServer } from '../../db/open.ts'
import { type Db, withRead, withTx } from '../../db/tx.ts'
import { type Finding, finding, well } from './finding.ts'

type Seen = {
  readonly pid: number
  /** Two that agree in it are one database. */
  readonly which: string
}

const see = (tx: Parameters<Parameters<typeof withRead>[2]>[0]): Promise<readonly Seen[]> =>
  tx.sql<Seen>`select pg_backend_pid() as pid,
    current_database() || ' ' || pg_postmaster_start_time()::text as which`

/** Two connections that one server process answers in turn: a pooler gives it away after each transaction. */
async function lookTwice(db: Db): Promise<{ readonly isPooled: boolean; readonly which: string }> {
  const [alone] = await withRead(db, 'doctor', see)
  const [inside] = await withTx(db, 'doctor', see)
  return { isPooled: alone?.pid === inside?.pid, which: alone?.which ?? '' }
}

/** Whether a transaction pooler is where DATABASE_DIRECT_URL says that one is. Only for a server that answers. */
export async function poolerFindings(
  db: Db,
  directUrl: string | null,
): Promise<readonly Finding[]> {
  if (db.kind === 'embedded') return []
  try {
    const seen = await lookTwice(db)
    if (directUrl === null) return seen.isPooled ? [unnamed()] : []
    const direct = lookAtServer(directUrl, { isPooled: false })
    try {
      const there = await lookTwice(direct)
      return [directOf({ ...there, isSame: there.which === seen.which })]
    } finally {
      await direct.close()
    }
  } catch {
    return directUrl === null ? [] : [unreached()]
  }
}

const unnamed = (): Finding =>
  finding('wrong', 'pooler', {
    says: 'DATABASE_URL leads through a pooler that gives connections away after each transaction',
    mend: 'Name the server itself in DATABASE_DIRECT_URL: prepared statements fail and no kick is heard otherwise.',
  })

const unreached = (): Finding =>
  finding('wrong', 'pooler', {
    says: 'the database cannot be reached at DATABASE_DIRECT_URL',
    mend: 'Try DATABASE_DIRECT_URL with psql, and mend what it says: migrations and kicks go by it.',
  })

function directOf(of: { readonly isPooled: boolean; readonly isSame: boolean }): Finding {
  if (!of.isSame)
    return finding('wrong', 'pooler', {
      says: 'DATABASE_URL and DATABASE_DIRECT_URL lead to different databases',
      mend: 'Name the database behind the pooler in DATABASE_DIRECT_URL.',
    })
  if (of.isPooled)
    return finding('wrong', 'pooler', {
      says: 'DATABASE_DIRECT_URL leads through a pooler too',
      mend: 'Name the server itself, or a pooler’s entry in session mode.',
    })
  return well('pooler', 'DATABASE_DIRECT_URL leads to the same database, directly')
}
