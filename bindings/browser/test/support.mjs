// What the tests share: the module under Node.js, a server for the page, and headless Chromium.

import { spawn, spawnSync } from 'node:child_process'
import { createServer } from 'node:http'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { extname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'

export const repository = fileURLToPath(new URL('../../../', import.meta.url))
/** The page, whose module `bindings/browser/build` makes. */
export const page = join(repository, 'docs/try')
const pkg = process.env.FIRN_BROWSER_PKG ?? join(page, 'pkg')

/** Loads the module into Node.js. */
export async function load () {
  const firn = await import(join(pkg, 'firn_browser.js'))
  firn.initSync({ module: await readFile(join(pkg, 'firn_browser_bg.wasm')) })
  return firn
}

const TYPES = { '.css': 'text/css', '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' }

/** Serves the page on a loopback port; `/blank` is an empty page of the same origin. */
export async function serve () {
  const server = createServer(async (request, response) => {
    const path = normalize(new URL(request.url, 'http://x').pathname).replace(/^(\.\.[/\\])+/, '')
    if (path === '/blank') return response.setHeader('content-type', 'text/html').end('<title>blank</title>')
    const file = path.startsWith('/pkg/') ? join(pkg, path.slice(5)) : join(page, path === '/' ? 'index.html' : path)
    try {
      const content = await readFile(file)
      response.setHeader('content-type', TYPES[extname(file)] ?? 'application/octet-stream').end(content)
    } catch {
      response.writeHead(404).end()
    }
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() }
}

const NAMES = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome']

/** Returns the name of a browser that is installed. */
export function browserName () {
  return NAMES.find((name) => spawnSync(name, ['--version']).status === 0)
}

/** Headless Chromium, driven through a pipe. Names do not resolve. */
export class Browser {
  #process
  #profile
  #waiting = new Map()
  #last = 0

  static async start (name) {
    const browser = new Browser()
    browser.#profile = await mkdtemp(join(tmpdir(), 'firn-browser-'))
    browser.#process = spawn(name, [
      '--headless', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe', `--user-data-dir=${browser.#profile}`,
      '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1', 'about:blank'
    ], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] })
    let buffered = Buffer.alloc(0)
    browser.#process.stdio[4].on('data', (chunk) => {
      buffered = Buffer.concat([buffered, chunk])
      for (let end; (end = buffered.indexOf(0)) >= 0; buffered = buffered.subarray(end + 1)) {
        browser.#receive(JSON.parse(buffered.subarray(0, end)))
      }
    })
    return browser
  }

  #receive ({ id, result, error }) {
    const waiting = this.#waiting.get(id)
    if (!waiting) return
    this.#waiting.delete(id)
    if (error) waiting.reject(new Error(error.message))
    else waiting.resolve(result)
  }

  send (method, params = {}, sessionId) {
    return new Promise((resolve, reject) => {
      const id = ++this.#last
      this.#waiting.set(id, { resolve, reject })
      this.#process.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + '\0')
    })
  }

  /** Opens a tab. */
  async open (url, { width = 1200, height = 900, dark = false } = {}) {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank', width, height })
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true })
    const tab = new Tab(this, targetId, sessionId)
    await tab.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false })
    await tab.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }] })
    await tab.goTo(url)
    return tab
  }

  async stop () {
    const ended = new Promise((resolve) => this.#process.once('exit', resolve))
    await this.send('Browser.close').catch(() => {})
    await ended
    await rm(this.#profile, { recursive: true, force: true, maxRetries: 5 })
  }
}

/** A tab of the browser. */
class Tab {
  #browser
  #target
  #session

  constructor (browser, target, session) {
    this.#browser = browser
    this.#target = target
    this.#session = session
  }

  send (method, params) {
    return this.#browser.send(method, params, this.#session)
  }

  async goTo (url) {
    await this.send('Page.navigate', { url })
    await this.until('document.readyState === "complete" && location.href !== "about:blank"')
  }

  async reload () {
    await this.run('document.documentElement.dataset.old = "true"')
    await this.send('Page.reload', {})
    await this.until('!document.documentElement.dataset.old && document.readyState === "complete"')
  }

  /** Evaluates an expression, which may be a promise. */
  async run (expression) {
    const { result, exceptionDetails: failed } = await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true })
    if (failed) throw new Error(failed.exception?.description ?? failed.text)
    return result.value
  }

  /** Waits until an expression is true. */
  async until (expression, millis = 30000) {
    for (const end = Date.now() + millis; ;) {
      const value = await this.run(expression).catch(() => false)
      if (value) return value
      if (Date.now() > end) throw new Error(`not true after ${millis} ms: ${expression}`)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }

  async screenshot () {
    const { data } = await this.send('Page.captureScreenshot', { format: 'png' })
    return Buffer.from(data, 'base64')
  }

  close () {
    return this.#browser.send('Target.closeTarget', { targetId: this.#target })
  }
}
