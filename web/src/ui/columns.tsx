/** The head of a table; `more` names the column of its buttons, for whoever does not see them. */
export function Columns({
  of,
  more,
}: {
  readonly of: { readonly [key: string]: string }
  readonly more?: string | undefined
}) {
  return (
    <thead>
      <tr>
        {Object.entries(of).map(([key, label]) => (
          <th key={key} scope="col">
            {label}
          </th>
        ))}
        {more !== undefined && (
          <th scope="col">
            <span className="visually-hidden">{more}</span>
          </th>
        )}
      </tr>
    </thead>
  )
}
