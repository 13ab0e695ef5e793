//! Sets of files to generate.

use firn_kv::Result;
use serde_json::{Value, json};

use super::made::Made;
use super::{damage, interrupted, logs, manifests, stores, tables};

/// Returns every shape with every option, and damaged forms of them.
pub fn all() -> Result<Made> {
    let mut made = Made::default();
    let recipes = [tables::all(), tables::zstd()].concat();
    recipes.iter().try_for_each(|r| r.make(&mut made))?;
    (0..6).try_for_each(|i| logs::sound(10 * i, &mut made))?;
    (0..24).try_for_each(|i| manifests::sound(i, i * 2, &mut made))?;
    (0..4).try_for_each(|i| manifests::every_policy(i, &mut made))?;
    (0..4).try_for_each(|i| manifests::blob_files(i, &mut made))?;
    (0..6).try_for_each(|i| stores::make(i, 300 + 400 * i, &mut made))?;
    (0..4).try_for_each(|i| stores::blobs(i, 300 + 800 * i, &mut made))?;
    (0..3).try_for_each(|i| interrupted::make(i, 40 + 20 * i, &mut made))?;
    damage::make(&recipes, 14, &mut made)?;
    (0..10).try_for_each(|i| logs::damaged(i, &mut made))?;
    (0..5).try_for_each(|i| logs::sealed_damage(i, &mut made))?;
    (0..10).try_for_each(|i| manifests::damaged(i, &mut made))?;
    Ok(made)
}

/// Returns the golden files of format version 1. They must stay few and small, and this function
/// must always produce the same files. Another format version gets another function.
pub fn golden() -> Result<Made> {
    let mut made = Made::default();
    tables::few().iter().try_for_each(|r| r.make(&mut made))?;
    tables::zstd().iter().try_for_each(|r| r.make(&mut made))?;
    stores::make(7, 120, &mut made)?;
    stores::blobs(8, 300, &mut made)?;
    interrupted::make(9, 40, &mut made)?;
    manifests::blob_files(1, &mut made)?;
    let mut others = Made::default();
    logs::sound(1, &mut others)?;
    manifests::sound(3, 9, &mut others)?;
    made.add(others.only(&[
        "closed",
        "many segments",
        "recycled segments",
        "torn last record",
        "whole",
        "the last frame is torn",
    ]));
    let versions = versions().to_string() + "\n";
    made.file("versions.json", versions.into_bytes());
    Ok(made.hashed())
}

/// Returns the versions that determine bytes beyond what the format specifies: the compressors, the
/// filter construction, and the writer's own version.
#[allow(clippy::disallowed_methods, reason = "it reads the versions from the lock file")]
pub fn versions() -> Value {
    let lock = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock"))
        .unwrap_or_default();
    let version = |name: &str| {
        let after = lock.split_once(&format!("name = \"{name}\"\nversion = \""));
        after.and_then(|(_, rest)| rest.split_once('"')).map(|(version, _)| version.to_owned())
    };
    json!({"firn-kv": env!("CARGO_PKG_VERSION"), "lz4_flex": version("lz4_flex"), "xorf": version("xorf"), "zstd": version("zstd-sys")})
}
