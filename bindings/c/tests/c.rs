//! The header matches the sources. The example in C compiles with it without a warning, and runs;
//! under valgrind, if installed, without leaks and invalid accesses.

#![allow(clippy::disallowed_methods, reason = "it compiles a program and touches no store")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_header_is_that_of_the_sources() {
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).unwrap();
    let mut made = vec![];
    cbindgen::Builder::new()
        .with_crate(here())
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut made);
    let (file, made) = (here().join("include/firn.h"), String::from_utf8(made).unwrap());
    if std::env::var_os("FIRN_REWRITE").is_some_and(|v| v == "1") {
        std::fs::write(&file, &made).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        there == made,
        "include/firn.h is not what cbindgen makes of src; FIRN_REWRITE=1 makes it anew"
    );
}

fn run(command: &mut Command) -> Output {
    // Cargo's path would prefer a library from an earlier build to the one that the program was
    // linked with.
    let done = command
        .env_remove("LD_LIBRARY_PATH")
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        done.status.success(),
        "{command:?}: {}\n{}{}",
        done.status,
        text(&done.stdout),
        text(&done.stderr)
    );
    done
}

/// Returns cargo's directory of the libraries: beside the directory of this test.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// A directory that is removed after the test.
struct Temp(PathBuf);

impl Temp {
    fn new(name: &str) -> Temp {
        let dir = std::env::temp_dir().join(format!("firn-c-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Temp(dir)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn compile(source: &str, into: &Temp) -> PathBuf {
    let program = into.0.join("program");
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-g", "-I"])
        .arg(here().join("include"));
    cc.arg(here().join(source)).arg("-o").arg(&program).arg("-L").arg(libraries()).arg("-lfirn_c");
    run(cc.arg(format!("-Wl,-rpath,{}", libraries().display())));
    program
}

#[test]
fn the_example_in_c_is_compiled_and_runs() {
    let temp = Temp::new("tour");
    let program = compile("examples/tour.c", &temp);
    let out = run(Command::new(&program).arg(temp.0.join("db")));
    assert!(String::from_utf8_lossy(&out.stdout).ends_with(": all is as it should be\n"));
    if Command::new("valgrind").arg("--version").output().is_ok_and(|v| v.status.success()) {
        let mut valgrind = Command::new("valgrind");
        valgrind.args([
            "--quiet",
            "--error-exitcode=9",
            "--leak-check=full",
            "--errors-for-leak-kinds=definite",
            "--fair-sched=yes",
        ]);
        run(valgrind.arg(&program).arg(temp.0.join("under-valgrind")));
    }
}

#[test]
fn the_header_is_one_for_cpp_too() {
    if Command::new("c++").arg("--version").output().is_err() {
        return eprintln!("passed over: there is no c++");
    }
    let temp = Temp::new("cpp");
    let source = temp.0.join("use.cpp");
    std::fs::write(
        &source,
        "#include <firn.h>\nint main() { return firn_version() == nullptr; }\n",
    )
    .unwrap();
    let mut cc = Command::new("c++");
    run(cc
        .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"])
        .arg(here().join("include"))
        .arg(&source));
}
