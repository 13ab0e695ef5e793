// Objects of results: one call creates each, where a call for each field would cost more than a row.

export const newResult = (kind, columns, rows, isComplete, warnings) => ({ kind, columns, rows, isComplete, warnings })
export const newColumn = (name, type) => ({ name, type })
