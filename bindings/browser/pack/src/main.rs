//! Writes the JavaScript and TypeScript around a module for browsers: `wasm-bindgen --target web`,
//! as a program. The lock file determines its version.

use std::path::PathBuf;
use std::process::ExitCode;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [module, out] = &arguments[..] else {
        eprintln!("usage: firn-browser-pack MODULE.wasm DIRECTORY");
        return ExitCode::from(2);
    };
    let generate = || {
        let mut bindgen = Bindgen::new();
        bindgen.input_path(module).web(true)?.typescript(true).omit_default_module_path(false);
        bindgen.remove_name_section(true).remove_producers_section(true).generate(out)
    };
    match generate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("cannot write the JavaScript of {}: {e:#}", module.display());
            ExitCode::from(2)
        }
    }
}
