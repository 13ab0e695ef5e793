//! A store with encrypted files: the engine over an environment that encrypts (`env.rs`). It shows
//! the effect on disk, with a wrong key, and after a byte was changed. Run it with
//! `cargo run -p firn-kv --example encrypted`.

#![allow(clippy::disallowed_methods, reason = "it reads the store's files directly")]

mod env;

use std::path::Path;
use std::sync::Arc;

use firn_kv::OsEnv;
use firn_kv::{Db, DbOptions, Result, TreeOptions};

use env::Encrypted;

fn open(dir: &Path, key: [u8; 32]) -> Result<Db> {
    Db::open_in(Arc::new(Encrypted::new(OsEnv::new(), key)), dir, DbOptions::default())
}

/// Reports whether any file of the store contains these bytes.
fn is_readable(dir: &Path, bytes: &[u8]) -> std::io::Result<bool> {
    for entry in std::fs::read_dir(dir)? {
        if std::fs::read(entry?.path())?.windows(bytes.len()).any(|w| w == bytes) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("firn-encrypted-{}", std::process::id()));
    // A real key comes from a key store, or from a password through Argon2.
    let key = [7; 32];
    let db = open(&dir, key)?;
    let letters = db.tree("letters", TreeOptions::default())?;
    letters.put("to Alice", "meet me at the old mill")?;
    letters.flush()?;
    letters.put("to Bob", "bring nobody along")?;
    db.close()?;
    for text in ["old mill", "nobody along", "Alice", "letters"] {
        println!("{text:?} occurs in the files: {}", is_readable(&dir, text.as_bytes())?);
    }

    let wrong = open(&dir, [8; 32]).err().map_or("it opened".into(), |e| e.to_string());
    println!("with a wrong key: {wrong}");

    let db = open(&dir, key)?;
    let letters = db.existing_tree("letters")?;
    println!(
        "with the key, the letter to Alice reads: {}",
        letters
            .get("to Alice")?
            .map_or("nothing".into(), |v| String::from_utf8_lossy(&v).into_owned())
    );
    let table = letters
        .tables()?
        .first()
        .map(|t| dir.join(format!("{:08}.sst", t.id)))
        .ok_or("there is no table")?;
    drop((letters, db));

    let mut bytes = std::fs::read(&table)?;
    bytes[200] ^= 1;
    std::fs::write(&table, bytes)?;
    let found = open(&dir, key)?.existing_tree("letters")?.get("to Alice");
    println!(
        "with one bit of the table changed: {}",
        found.err().map_or("no error".into(), |e| e.to_string())
    );
    std::fs::remove_dir_all(dir)?;
    Ok(())
}
