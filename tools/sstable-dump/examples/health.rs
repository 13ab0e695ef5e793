//! Checks a store from a program, as `sstable-dump check --json` does: `health DIR` prints whether
//! it is sound.
//!
//! `cargo run --release -p sstable-dump --example health -- firn-data`

use clap::Parser;
use firn_tools::output::Failure;
use sstable_dump::{DumpCli, run};

/// Returns the output of the check; exit code 1 of the command is an error here.
fn check(dir: &str) -> Result<String, Failure> {
    let cli = DumpCli::try_parse_from(["sstable-dump", "--json", "check", dir])
        .map_err(|e| Failure::new(e.to_string()))?;
    let mut out = vec![];
    run(&cli, &mut out)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

fn main() {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "firn-data".to_owned());
    match check(&dir) {
        Ok(found) => println!("{dir} is sound: {}", found.trim_end()),
        Err(failure) => println!("{dir} is not: {failure:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use firn_kv::{Db, TreeOptions};

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a folder of its own, and damage")]
    fn a_sound_store_and_a_damaged_one() {
        let dir = std::env::temp_dir().join(format!("firn-health-{}", std::process::id()));
        let db = Db::open(&dir).unwrap();
        let tree = db.tree("fruit", TreeOptions::default()).unwrap();
        tree.put("apple", "red").unwrap();
        tree.flush().unwrap();
        db.close().unwrap();
        let name = dir.to_str().unwrap();
        assert!(check(name).is_ok());
        let table = dir.join("00000001.sst");
        let mut bytes = std::fs::read(&table).unwrap();
        bytes[0] ^= 1;
        std::fs::write(&table, bytes).unwrap();
        assert!(check(name).is_err());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
