// The page: a prompt for CQL with the shape of the store, and the simulator. Both call a worker.

const element = (id) => document.getElementById(id)

/** Calls into a worker, in order. */
class Calls {
  #worker
  #waiting = new Map()
  #last = 0
  #onProgress

  constructor (onProgress) {
    this.#onProgress = onProgress
    this.#start()
  }

  #start () {
    this.#worker = new Worker('worker.js', { type: 'module' })
    this.#worker.onmessage = ({ data }) => {
      if ('progress' in data) return this.#onProgress?.(data.progress)
      const { resolve, reject } = this.#waiting.get(data.id)
      this.#waiting.delete(data.id)
      if (data.error) reject(Object.assign(new Error(data.error.message), data.error))
      else resolve(data.result)
    }
    this.#worker.onerror = (event) => {
      event.preventDefault()
      this.#fail(event.message ?? 'the worker cannot be loaded: build it with bindings/browser/build')
    }
  }

  #fail (message) {
    for (const { reject } of this.#waiting.values()) reject(new Error(message))
    this.#waiting.clear()
  }

  call (name, ...values) {
    return new Promise((resolve, reject) => {
      const id = ++this.#last
      this.#waiting.set(id, { resolve, reject })
      this.#worker.postMessage({ id, call: name, values })
    })
  }

  /** Ends the worker with all of its calls, and starts another. */
  restart (message) {
    this.#worker.terminate()
    this.#fail(message)
    this.#start()
  }
}

function add (parent, tag, text, className) {
  const child = document.createElement(tag)
  if (text !== undefined) child.textContent = text
  if (className) child.className = className
  parent.append(child)
  return child
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

function bytesText (bytes) {
  let unit = 0
  while (bytes >= 1024 && unit < UNITS.length - 1) {
    bytes /= 1024
    unit++
  }
  return `${unit && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${UNITS[unit]}`
}

const numberText = (n) => n.toLocaleString('en-GB', { maximumFractionDigits: Math.abs(n) < 10 ? 2 : 0 })
const many = (n, what) => `${numberText(n)} ${what}${n === 1 ? '' : 's'}`

// --- The tabs -----------------------------------------------------------------------------------

const tabs = [...document.querySelectorAll('[role=tab]')]

function select (tab) {
  for (const other of tabs) {
    const isSelected = other === tab
    other.setAttribute('aria-selected', isSelected)
    other.tabIndex = isSelected ? 0 : -1
    element(other.getAttribute('aria-controls')).hidden = !isSelected
  }
  history.replaceState(null, '', `#${tab.getAttribute('aria-controls')}`)
}

tabs.forEach((tab, at) => {
  tab.addEventListener('click', () => select(tab))
  tab.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (!step) return
    const next = tabs[(at + step + tabs.length) % tabs.length]
    select(next)
    next.focus()
  })
})
if (location.hash === '#sim') select(element('tab-sim'))

function showFatal (error) {
  element('fatal').textContent = error.message
  element('fatal').hidden = false
}

// --- CQL ----------------------------------------------------------------------------------------

const DATABASE = 'try'
const HISTORY = 'firn-history'
/** Characters of the history that are retained. */
const MAX_HISTORY = 64 << 10
/** Results that are retained. */
const MAX_RESULTS = 200

const db = new Calls()
const editor = element('editor')
const results = element('results')

/** Formats a value as in cqlsh; texts within others have quotes. */
function valueText (value, isInner) {
  if (value === null) return 'null'
  if (typeof value === 'string') return isInner ? `'${value.replaceAll("'", "''")}'` : value
  if (typeof value !== 'object') return String(value)
  const all = (values) => [...values].map((one) => valueText(one, true)).join(', ')
  if (value instanceof Date) return value.toISOString().replace('T', ' ').replace('Z', '+0000')
  if (value instanceof Uint8Array) return '0x' + [...value].map((byte) => byte.toString(16).padStart(2, '0')).join('')
  if (Array.isArray(value)) return `[${all(value)}]`
  if (value instanceof Set) return `{${all(value)}}`
  const pair = ([key, of], isName) => `${isName ? key : valueText(key, true)}: ${valueText(of, true)}`
  if (value instanceof Map) return `{${[...value].map((one) => pair(one, false)).join(', ')}}`
  return `{${Object.entries(value).map((one) => pair(one, true)).join(', ')}}`
}

function showRows (parent, { columns, rows, isComplete }) {
  const table = add(add(parent, 'div', undefined, 'scroll'), 'table')
  const head = add(add(table, 'thead'), 'tr')
  for (const { name, type } of columns) add(add(head, 'th', name), 'small', type)
  const body = add(table, 'tbody')
  for (const row of rows) {
    const line = add(body, 'tr')
    for (const value of row) {
      const isNumber = ['number', 'bigint'].includes(typeof value)
      add(line, 'td', valueText(value), value === null ? 'none' : isNumber ? 'number' : undefined)
    }
  }
  return isComplete ? many(rows.length, 'row') : `the first ${many(rows.length, 'row')}`
}

function showResult (one) {
  const block = document.createElement('div')
  block.className = 'result'
  add(block, 'pre', one.text)
  if (one.error) {
    add(block, 'p', `${one.error.message}\n(${one.error.code})`, 'error').setAttribute('role', 'alert')
  } else {
    const what = one.kind === 'rows' ? showRows(block, one) : { schema: 'schema changed', keyspace: 'keyspace selected', void: 'done' }[one.kind]
    add(block, 'p', `${what} · ${one.millis.toFixed(1)} ms`, 'hint')
    for (const warning of one.warnings) add(block, 'p', `warning: ${warning}`, 'hint')
  }
  return block
}

/** Shows results above the older ones. */
function show (blocks) {
  results.prepend(...blocks)
  while (results.children.length > MAX_RESULTS) results.lastChild.remove()
}

function showFailure (text, error) {
  show([showResult({ text, error: { message: error.message, code: error.code ?? error.name } })])
}

/** A bar with its label, its length as a share of the largest, and its size. */
function addBar (parent, label, bytes, most, detail, className) {
  const bar = add(parent, 'div', undefined, `bar ${className}`)
  add(bar, 'span', label)
  add(add(bar, 'span'), 'i').style.width = `${Math.max(1, 100 * bytes / most)}%`
  add(bar, 'span', detail)
}

async function showShape () {
  const stats = await db.call('stats')
  const shape = element('shape')
  shape.replaceChildren()
  const totals = add(shape, 'dl')
  for (const [name, value] of [
    ['Log', bytesText(stats.wal_bytes)],
    ['Tables', bytesText(stats.table_bytes)],
    ['Written per byte', stats.since_open.write_amplification.toFixed(2)],
    ['Runs a read looks into', String(stats.read_amplification)]
  ]) {
    add(totals, 'dt', name)
    add(totals, 'dd', value)
  }
  const isSystem = ({ name, table }) => (table ?? name).startsWith('system')
  const sizes = ({ memtable_bytes: memtable, runs }) => [memtable, ...runs.map((run) => run.bytes)]
  const total = (tree) => sizes(tree).reduce((sum, bytes) => sum + bytes, 0)
  const shown = stats.trees.filter((tree) => element('all-trees').checked || !isSystem(tree))
  shown.sort((a, b) => total(b) - total(a))
  const most = Math.max(1, ...shown.flatMap(sizes))
  for (const tree of shown) {
    const title = add(shape, 'h3', tree.table ?? tree.name)
    if (tree.index) add(title, 'small', ` index ${tree.index}`)
    addBar(shape, 'memtable', tree.memtable_bytes, most, bytesText(tree.memtable_bytes), 'memtable')
    for (const run of tree.runs) {
      addBar(shape, `level ${run.level}`, run.bytes, most, `${bytesText(run.bytes)}, ${many(run.tables, 'table')}`, '')
    }
  }
  if (!shown.length) add(shape, 'p', 'No trees yet: create a table, or run an example.', 'hint')
}

/** Statements that ran, oldest first, and the position of the one in the editor. */
let past = []
try {
  past = JSON.parse(localStorage.getItem(HISTORY) ?? '[]').map(String)
} catch {
  // A history that another version wrote is dropped.
  localStorage.removeItem(HISTORY)
}
let at = past.length

function remember (text) {
  if (past.at(-1) !== text) past.push(text)
  while (past.length > 1 && JSON.stringify(past).length > MAX_HISTORY) past.shift()
  at = past.length
  localStorage.setItem(HISTORY, JSON.stringify(past.join('').length > MAX_HISTORY ? [] : past))
}

/** Runs work of the CQL tab, whose buttons are disabled meanwhile. */
async function work (text, run) {
  const controls = document.querySelectorAll('#cql button, #cql select')
  controls.forEach((control) => { control.disabled = true })
  try {
    await run()
    await showShape()
  } catch (error) {
    showFailure(text, error)
  } finally {
    controls.forEach((control) => { control.disabled = false })
  }
}

function runText (text) {
  return work(text, async () => {
    const { results } = await db.call('run', text)
    show(results.map(showResult))
  })
}

element('prompt').addEventListener('submit', (event) => {
  event.preventDefault()
  const text = editor.value.trim()
  if (!text) return editor.focus()
  remember(text)
  runText(text).then(() => editor.focus())
})

editor.addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
    event.preventDefault()
    element('prompt').requestSubmit()
  } else if (event.altKey && ['ArrowUp', 'ArrowDown'].includes(event.key)) {
    event.preventDefault()
    at = Math.min(Math.max(at + (event.key === 'ArrowUp' ? -1 : 1), 0), past.length)
    editor.value = past[at] ?? ''
  }
})

element('clear').addEventListener('click', () => results.replaceChildren())
element('flush').addEventListener('click', () => work('Flush', () => db.call('flush')))
element('all-trees').addEventListener('change', () => showShape())
element('fill').addEventListener('click', () => work('20,000 rows', async () => {
  const { rows, millis } = await db.call('fill')
  const block = document.createElement('div')
  block.className = 'result'
  add(block, 'p', `${many(rows, 'row')} written into try.readings in ${Math.round(millis)} ms`)
  show([block])
  editor.value = 'SELECT sensor, count(*), max(value) FROM try.readings GROUP BY sensor LIMIT 10;'
}))

for (const button of document.querySelectorAll('.example')) {
  button.addEventListener('click', async () => {
    const response = await fetch(`pkg/examples/${button.dataset.script}.cql`)
    if (!response.ok) return showFailure(button.textContent, new Error(`the example cannot be loaded: ${response.statusText}`))
    editor.value = await response.text()
    editor.scrollTop = 0
    await runText(editor.value)
  })
}

const place = () => element('where').value === 'opfs' ? DATABASE : undefined

async function open () {
  if (place()) await navigator.storage?.persist?.()
  await db.call('open', place())
}

element('where').addEventListener('change', () => work('Open the store', async () => {
  try {
    await open()
  } catch (error) {
    // The store in memory is always there.
    element('where').value = 'memory'
    await open()
    throw error
  } finally {
    localStorage.setItem('firn-where', element('where').value)
  }
}))

element('start-over').addEventListener('click', () => work('Start over', async () => {
  await db.call('close')
  if (place()) await db.call('remove', DATABASE)
  await open()
  results.replaceChildren()
}))

// --- The simulator ------------------------------------------------------------------------------

const OWN = 'own'
/** Outcomes that are compared. */
const MAX_COMPARED = 12

const simulator = new Calls((share) => { element('progress').value = share })
let metrics = []
let workloads = []
let isSimulating = false
const compared = []

const EXAMPLE = `about = "A session store: sessions are created, and popular ones change"
keys = "200k"
value-size = "50-150"
steps = "filluniquerandom, wait, churn@300%"

[phase.churn]
distribution = "zipfian:0.9"
puts = 0.9
deletes = 0.1

[store]
policy = "leveled:8:base=2m"
memtable-size = "512k"
table-size = "1m"
`

/** Returns the options of the form as those of the command. */
function options () {
  const isOwn = element('workload').value === OWN
  const given = [['--policy', 'policy'], ['--seed', 'seed'], ['--data', 'data'], ['--memtable-size', 'memtable'], ['--table-size', 'table']]
  const filled = given.map(([name, id]) => [name, element(id).value.trim()]).filter(([, value]) => value)
  return ['--workload', isOwn ? 'churn.toml' : element('workload').value, ...filled.flat()]
}

const quoted = (word) => /^[\w:.=,+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`

function showForm () {
  const isOwn = element('workload').value === OWN
  element('description-label').hidden = !isOwn
  element('about').textContent = isOwn
    ? 'Fields that are empty above are those of the description. Save it as churn.toml to use the command below.'
    : workloads.find(({ name }) => name === element('workload').value)?.about ?? ''
  element('command').textContent = ['compaction-sim run', ...options().map(quoted)].join(' ')
}

/** Metrics of the table of outcomes. */
const COLUMNS = ['write_amplification', 'mean_runs', 'max_runs', 'space_amplification', 'max_space_amplification', 'held_up', 'seconds']

function metricText (value, unit) {
  if (value === null || value === undefined) return '-'
  if (unit === 'bytes') return bytesText(value)
  if (unit === 'seconds') return `${numberText(value)} s`
  if (unit === 'share') return `${(100 * value).toFixed(1)} %`
  return numberText(value)
}

function showOutcome ({ outcomes, figures }) {
  const [outcome] = outcomes
  compared.unshift(outcome)
  compared.length = Math.min(compared.length, MAX_COMPARED)
  const shown = COLUMNS.map((name) => metrics.find((metric) => metric.name === name)).filter(Boolean)
  const table = element('compared')
  table.replaceChildren()
  const head = add(add(table, 'thead'), 'tr')
  for (const name of ['policy', 'workload']) add(head, 'th', name)
  for (const { words, about } of shown) add(head, 'th', words).title = about
  const body = add(table, 'tbody')
  for (const one of compared) {
    const line = add(body, 'tr', undefined, one === outcome ? 'latest' : undefined)
    for (const name of ['policy', 'workload']) add(line, 'td', one[name])
    for (const { name, unit } of shown) add(line, 'td', metricText(one[name], unit), 'number')
  }
  const levels = element('levels')
  levels.replaceChildren()
  const top = add(add(levels, 'thead'), 'tr')
  for (const name of ['level', 'runs', 'tables', 'bytes', 'entries']) add(top, 'th', name)
  const rows = add(levels, 'tbody')
  for (const { level, runs, tables, bytes, entries } of outcome.levels) {
    const line = add(rows, 'tr')
    for (const text of [level, runs, tables, bytesText(bytes), numberText(entries)]) add(line, 'td', text, 'number')
  }
  // Points of the trade-off are compared with others.
  showFigures(figures.filter(({ name }) => name in FIGURES && (compared.length > 1 || name !== 'trade-off')))
  element('outcome').hidden = false
}

const FIGURES = { written: 'Written', runs: 'Runs', space: 'Space', rate: 'Rate', 'trade-off': 'Trade-off' }

function showFigures (figures) {
  const row = element('figures')
  const chosen = row.querySelector('[aria-pressed=true]')?.dataset.name ?? 'written'
  row.replaceChildren()
  const choose = ({ name, svg }) => {
    for (const button of row.children) button.setAttribute('aria-pressed', button.dataset.name === name)
    element('figure').src = `data:image/svg+xml,${encodeURIComponent(svg)}`
    element('figure').alt = `${FIGURES[name]} of ${compared.map(({ policy }) => policy).join(', ')}`
  }
  for (const name of Object.keys(FIGURES)) {
    const figure = figures.find((one) => one.name === name)
    if (!figure) continue
    const button = add(row, 'button', FIGURES[name])
    button.dataset.name = figure.name
    button.addEventListener('click', () => choose(figure))
  }
  choose(figures.find(({ name }) => name === chosen) ?? figures[0])
}

element('sim-form').addEventListener('input', showForm)
/** Fields that a description of one's own has values for, and their values before it was chosen. */
const described = ['policy', 'data', 'memtable', 'table']
let before = {}
element('workload').addEventListener('change', () => {
  if (element('workload').value === OWN) {
    before = Object.fromEntries(described.map((id) => [id, element(id).value]))
    for (const id of described) element(id).value = ''
  } else {
    for (const id of described) element(id).value ||= before[id] ?? ''
  }
  showForm()
})
element('sim-form').addEventListener('submit', async (event) => {
  event.preventDefault()
  if (isSimulating) return
  isSimulating = true
  const isOwn = element('workload').value === OWN
  element('progress').value = 0
  for (const id of ['progress', 'stop']) element(id).hidden = false
  element('simulate').disabled = true
  element('sim-error').hidden = true
  try {
    showOutcome(await simulator.call('simulate', options(), isOwn ? element('description').value : undefined))
  } catch (error) {
    element('sim-error').textContent = error.message
    element('sim-error').hidden = false
  } finally {
    isSimulating = false
    for (const id of ['progress', 'stop']) element(id).hidden = true
    element('simulate').disabled = false
  }
})
element('stop').addEventListener('click', () => simulator.restart('the simulation was stopped'))

// --- The start ----------------------------------------------------------------------------------

editor.value = "SELECT cluster_name, release_version FROM system.local;"
element('description').value = EXAMPLE
element('where').value = localStorage.getItem('firn-where') ?? 'memory'

try {
  const choices = await simulator.call('choices');
  ({ metrics, workloads } = choices)
  for (const { name, about } of choices.policies) {
    Object.assign(add(element('policies'), 'option', about), { value: name })
  }
  for (const { name } of workloads) add(element('workload'), 'option', name).value = name
  add(element('workload'), 'option', 'your own …').value = OWN
  element('workload').value = 'zipfian'
  showForm()
  await work('Open the store', async () => {
    try {
      await open()
    } catch (error) {
      element('where').value = 'memory'
      await open()
      throw error
    }
  })
  editor.focus()
  document.body.dataset.ready = 'true'
} catch (error) {
  showFatal(error)
}
