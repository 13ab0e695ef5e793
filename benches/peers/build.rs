//! Builds Pebble with its C interface by the Go toolchain, for the feature `pebble`.
// A build script starts programs and reads its environment; none of it is engine code.
#![allow(clippy::disallowed_methods)]

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=pebble");
    if env::var_os("CARGO_FEATURE_PEBBLE").is_none() {
        return ExitCode::SUCCESS;
    }
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else {
        eprintln!("cargo did not say where to build");
        return ExitCode::FAILURE;
    };
    let archive = out.join("libfirnpebble.a");
    let built = Command::new("go")
        .args(["build", "-buildmode=c-archive", "-o"])
        .arg(&archive)
        .arg(".")
        .current_dir("pebble")
        .status();
    match built {
        Ok(status) if status.success() => {
            println!("cargo:rustc-link-search=native={}", out.display());
            println!("cargo:rustc-link-lib=static=firnpebble");
            println!("cargo:rustc-link-lib=resolv");
            ExitCode::SUCCESS
        }
        Ok(status) => {
            eprintln!("`go build` of benches/peers/pebble ended with {status}");
            ExitCode::FAILURE
        }
        Err(e) => {
            eprintln!("`go` cannot be started ({e}): the feature `pebble` needs Go 1.25 or newer");
            ExitCode::FAILURE
        }
    }
}
