// Compiles the .ksy files of a folder to Python. Usage: node compile.js FOLDER_OF_KSY OUTPUT_FOLDER
// The classes are made in Kaitai's debug mode: parsing is a step of its own, and each class knows the names of its fields.
const fs = require("fs"), path = require("path");
const compiler = require("kaitai-struct-compiler"), yaml = require("js-yaml");

const [from, to] = process.argv.slice(2);
const load = (name) => yaml.load(fs.readFileSync(path.join(from, `${name}.ksy`), "utf8"));
const importer = { importYaml: async (name) => load(path.basename(name)) };

async function main() {
  for (const file of fs.readdirSync(from).filter((f) => f.endsWith(".ksy")).sort()) {
    const made = await compiler.compile("python", load(path.basename(file, ".ksy")), importer, true);
    for (const [name, text] of Object.entries(made)) fs.writeFileSync(path.join(to, name), text);
  }
}

main().catch((e) => {
  console.error(String(e && e.message ? e.message : e));
  process.exit(2);
});
