// A service of short links: POST an address to get a link, GET the link to be redirected. It counts
// visits, and lists the links that were used last.
//
//     node examples/links.mjs DIRECTORY [PORT]
//     curl -d https://example.org/ http://127.0.0.1:8080/

import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { open } from 'firn-db'

const [directory = 'links', port = '8080'] = process.argv.slice(2)
const db = await open(directory)
const links = await db.tree('links')
// Keys: time of the last visit, 13 digits, then the name of the link.
const recent = await db.tree('recent')

const recentKey = (time, name) => `${String(time).padStart(13, '0')} ${name}`

async function create (address) {
  for (;;) {
    const name = randomBytes(4).toString('base64url')
    const link = JSON.stringify({ address: new URL(address).href, visits: 0 })
    if (await links.insertIfAbsent(name, link, { durability: 'power' })) return name
  }
}

// Both trees change together, and visits at the same time are all counted.
function visit (name) {
  return db.transact(async (tx) => {
    const stored = await tx.get(links, name)
    if (!stored) return undefined
    const link = JSON.parse(stored)
    if (link.last) tx.delete(recent, recentKey(link.last, name))
    link.visits++
    link.last = Date.now()
    tx.put(links, name, JSON.stringify(link))
    tx.put(recent, recentKey(link.last, name), '')
    return link.address
  })
}

async function list () {
  const snapshot = db.snapshot()
  try {
    const names = (await snapshot.keys(recent, { reverse: true, limit: 20 }).all()).map((key) => String(key).slice(14))
    const values = await snapshot.getMany(links, names)
    return values.map((value, at) => ({ name: names[at], ...JSON.parse(value) }))
  } finally {
    snapshot.close()
  }
}

async function answer (request, response) {
  const name = request.url.slice(1)
  if (request.method === 'POST') {
    let body = ''
    for await (const part of request) {
      body += part
      if (body.length > 8192) return response.writeHead(413).end()
    }
    if (!URL.canParse(body.trim())) return response.writeHead(400).end('the body is no address\n')
    response.writeHead(201).end(await create(body.trim()) + '\n')
  } else if (name === '') {
    response.setHeader('content-type', 'application/json').end(JSON.stringify(await list()) + '\n')
  } else {
    const address = await visit(decodeURIComponent(name))
    if (address) response.writeHead(302, { location: address }).end()
    else response.writeHead(404).end('no such link\n')
  }
}

const server = createServer((request, response) => {
  answer(request, response).catch((e) => {
    console.error(e)
    if (!response.headersSent) response.writeHead(500)
    response.end()
  })
})
server.listen(Number(port), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/`))

process.on('SIGTERM', () => {
  server.close(() => db.close())
  server.closeAllConnections()
})
