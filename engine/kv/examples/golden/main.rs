//! Writes files of every kind that the engine writes, with their expected contents.
//! `format-spec/check` compares its readers on these files. It also writes the golden files.
//!
//! ```text
//! # several hundred files over all options, including damaged ones
//! cargo run -p firn-kv --example golden -- all FOLDER
//! # the golden files of the present format version
//! cargo run -p firn-kv --example golden -- golden FOLDER
//! ```
//! Both sets need `--features zstd` for their zstd-compressed tables. The same command writes the
//! same bytes on every machine.

use std::path::Path;
use std::process::ExitCode;

use firn_kv::OsEnv;
use firn_kv::{Error, Result};

mod damage;
mod interrupted;
mod logs;
mod made;
mod manifests;
mod set;
mod stores;
mod tables;

fn write(made: &made::Made, folder: &Path) -> Result<()> {
    let env = OsEnv::new();
    env.create_dir_all(folder)?;
    if !env.list(folder)?.is_empty() {
        return Err(Error::invalid("the folder is not empty; name a new one").in_file(folder));
    }
    let lines: String = made.told.iter().map(|line| format!("{line}\n")).collect();
    let told = ("expected.jsonl", lines.as_bytes());
    for (path, bytes) in
        made.files.iter().map(|f| (f.path.as_str(), f.bytes.as_slice())).chain([told])
    {
        let path = folder.join(path);
        if let Some(dir) = path.parent() {
            env.create_dir_all(dir)?;
        }
        env.create(&path)?.append(bytes)?;
    }
    eprintln!("{} files in {}", made.files.len() + 1, folder.display());
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let made = match args.first().map(String::as_str) {
        Some("all") => set::all(),
        Some("golden") => set::golden(),
        _ => Err(Error::invalid("missing command: use all FOLDER, or golden FOLDER")),
    };
    match made.and_then(|m| {
        args.get(1)
            .map_or_else(|| Err(Error::invalid("missing FOLDER")), |to| write(&m, Path::new(to)))
    }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}
