// Runs a program of WASI under Node.js: `node run.mjs PROGRAM FOLDER`, the folder being what it sees as `/`.
import { readFile } from 'node:fs/promises';
import { WASI } from 'node:wasi';

const [program, folder] = process.argv.slice(2);
const wasi = new WASI({ version: 'preview1', args: [program], env: { RUST_BACKTRACE: '1' }, preopens: { '/': folder } });
const module = await WebAssembly.compile(await readFile(program));
wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
