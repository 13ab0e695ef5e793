'use strict'
// Compiles the native module and copies it into `prebuilds`, where `lib/native.js` finds it.
//
//     node build.js [--debug]

const { execFileSync } = require('node:child_process')
const { copyFileSync, mkdirSync } = require('node:fs')
const { join } = require('node:path')
const { file } = require('./lib/platform')

const debug = process.argv.includes('--debug')
const cargo = ['build', '-p', 'firn-node', '--locked', '--message-format', 'json-render-diagnostics']
if (!debug) cargo.push('--release')
const printed = execFileSync('cargo', cargo, {
  cwd: join(__dirname, '..'),
  env: { CARGO_PROFILE_RELEASE_STRIP: 'symbols', ...process.env },
  stdio: ['ignore', 'pipe', 'inherit'],
  maxBuffer: 1 << 28
})
const messages = String(printed).split('\n').filter(Boolean).map((line) => JSON.parse(line))
const built = messages.find((m) => m.reason === 'compiler-artifact' && m.target.name === 'firn_node')
const into = join(__dirname, 'prebuilds', file())
mkdirSync(join(into, '..'), { recursive: true })
copyFileSync(built.filenames.find((name) => /\.(so|dylib|dll)$/.test(name)), into)
console.log(into)
