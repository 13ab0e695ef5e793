//! Golden files in `format-spec/golden`: this program reads all of them and writes exactly the same
//! bytes.
//!
//! Dependencies decide the bytes that the format leaves open. These are the output of LZ4 and zstd,
//! the result of a filter's construction, and the version in the property `writer`. `versions.json`
//! names the versions of these dependencies.
//!
//! With the same versions every byte must be equal. With others, all bytes that they do not decide
//! must be equal. A build without zstd refuses the tables that are compressed with it.

#![allow(clippy::disallowed_methods, reason = "golden files are read as they are")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::Env;
use firn_kv::ErrorKind;
use firn_kv::MemEnv;
use firn_kv::OsEnv;
use firn_kv::internals::manifest::{self, Edit, ManifestState, TableMeta};
use firn_kv::internals::sstable::fields;
use firn_kv::internals::sstable::format::{
    BLOCK_HEADER, BlockHeader, BlockKind, FOOTER, Footer, StoredBlock,
};
use firn_testkit::own_process;
use serde_json::Value;

#[path = "../examples/golden/damage.rs"]
#[allow(dead_code)] // shared with the generator; this test makes only the golden files
mod damage;
#[path = "../examples/golden/interrupted.rs"]
mod interrupted;
#[path = "../examples/golden/logs.rs"]
#[allow(dead_code)]
mod logs;
#[path = "../examples/golden/made.rs"]
#[allow(dead_code)]
pub mod made;
#[path = "../examples/golden/manifests.rs"]
#[allow(dead_code)]
mod manifests;
#[path = "../examples/golden/set.rs"]
#[allow(dead_code)]
mod set;
#[path = "../examples/golden/stores.rs"]
pub mod stores;
#[path = "../examples/golden/tables.rs"]
mod tables;

const HOW_TO_GO_ON: &str = "\
The bytes that the engine writes have changed.
If the format has changed: raise its version, describe it in format-spec/README.md (History), keep reading the old version, and add
golden files of the new version next to these.
If only the bytes have changed, on purpose: remove format-spec/golden/v1 and write it again with
    cargo run -p firn-kv --features zstd --example golden -- golden format-spec/golden/v1
and explain in the commit why every reader of version 1 can still read them.";

pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format-spec/golden")
}

fn number(path: &Path) -> u64 {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let digits: String = name.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// Returns the engine's reading of a path.
fn read(kind: &str, path: &Path, from: u64) -> Value {
    let env = OsEnv::new();
    let content = match kind {
        "table" => tables::read(&*env, path, number(path)),
        "log" => logs::read(&*env, path, from),
        "manifest" => {
            manifest::Manifest::load(&*env, path).map(|state| manifests::told(&state.unwrap().0))
        }
        _ => stores::read(env, path),
    };
    content.unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Reports whether this build lacks the codec for the file in a line of `expected.jsonl`.
fn is_left_out(line: &str) -> bool {
    let told: Value = serde_json::from_str(line).unwrap();
    let path = Path::new(told["path"].as_str().unwrap());
    told["kind"] == "table" && number(path) >= tables::FIRST_ZSTD && tables::zstd().is_empty()
}

#[test]
fn golden_files_of_all_versions_are_read_in_full() {
    let mut n = 0;
    for version in std::fs::read_dir(golden()).unwrap() {
        let folder = version.unwrap().path();
        for line in std::fs::read_to_string(folder.join("expected.jsonl")).unwrap().lines() {
            let told: Value = serde_json::from_str(line).unwrap();
            if is_left_out(line) {
                let path = folder.join(told["path"].as_str().unwrap());
                let e = tables::read(&*OsEnv::new(), &path, number(&path)).unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Incompatible, "{e}");
                assert!(e.to_string().contains("zstd") && e.file().is_some(), "{e}");
                continue;
            }
            let content = read(
                told["kind"].as_str().unwrap(),
                &folder.join(told["path"].as_str().unwrap()),
                told["from"].as_u64().unwrap_or(0),
            );
            assert_eq!(Value::from(made::hash(&content)), told["hash"], "{line}");
            n += 1;
        }
    }
    assert!(n > 20, "{n}");
}

/// Describes the parts of a table that the engine alone decides.
fn meaning_of_table(bytes: &[u8], id: u64) -> String {
    let (mut out, mut at) = (String::new(), 0);
    let footer = bytes.len().checked_sub(FOOTER).map(|at| (at, &bytes[at..]));
    let is_whole =
        footer.is_some_and(|(at, f)| Footer::own_id(f.try_into().unwrap(), at as u64) == Some(id));
    if !is_whole {
        return "a table that a power cut left incomplete".to_owned();
    }
    while at < bytes.len() - FOOTER {
        let h = BlockHeader::read(&bytes[at..]).unwrap();
        let end = at + BLOCK_HEADER + h.stored_len;
        let raw = StoredBlock::check(&bytes[at..end], h.kind, id, at as u64)
            .and_then(|s| s.to_vec())
            .unwrap();
        let _ = match h.kind {
            BlockKind::Data | BlockKind::Tombstones | BlockKind::Blob => {
                writeln!(out, "{:?} {}", h.kind, made::hex(&raw))
            }
            BlockKind::Filter => writeln!(out, "a filter of kind {}", raw[0]),
            BlockKind::Index => {
                let rows = fields::index_block(&raw, at as u64 - before_index(bytes)).unwrap().rows;
                rows.iter().try_for_each(|r| {
                    writeln!(out, "{} {} {}", made::hex(&r.separator), r.entries, r.flags & 7)
                })
            }
            BlockKind::Properties => {
                let pairs = fields::properties_block(&raw).unwrap();
                pairs
                    .iter()
                    .filter(|p| p.0 != b"writer")
                    .try_for_each(|p| writeln!(out, "{} {:?}", made::hex(p.0), p.1))
            }
        };
        at = end;
    }
    out
}

/// Returns the length in bytes of filter and tombstones, from the footer.
fn before_index(bytes: &[u8]) -> u64 {
    let footer = &bytes[bytes.len() - FOOTER..];
    [16, 20].iter().map(|&i| u64::from(firn_kv::internals::util::coding::u32_at(footer, i))).sum()
}

/// Describes the edits of a manifest without the lengths of table files.
fn meaning_of_manifest(bytes: &[u8], number: u64) -> String {
    let (env, dir) = (MemEnv::new(0), Path::new("/m"));
    env.create_dir_all(dir).unwrap();
    env.write_file(&dir.join(manifest::manifest_name(number)), bytes).unwrap();
    let mut frames = manifest::read(&env, dir, number).unwrap().frames;
    let sizeless = |t: &mut Arc<TableMeta>| Arc::make_mut(t).size = 0;
    for edit in frames.iter_mut().flat_map(|f| &mut f.edits) {
        match edit {
            Edit::Tables { added, .. } => added.iter_mut().for_each(|a| sizeless(&mut a.table)),
            Edit::Snapshot(state) => {
                let ManifestState { trees, .. } = &mut **state;
                let runs = trees.values_mut().flat_map(|t| &mut t.runs);
                runs.flat_map(|r| &mut Arc::make_mut(r).tables).for_each(sizeless);
            }
            _ => {}
        }
    }
    frames.iter().map(|f| format!("{:?}\n", f.edits)).collect()
}

fn meaning(path: &str, bytes: &[u8]) -> String {
    match Path::new(path) {
        p if path.ends_with(".sst") => meaning_of_table(bytes, number(p)),
        p if path.contains("MANIFEST-") => meaning_of_manifest(bytes, number(p)),
        _ => made::hex(bytes),
    }
}

#[test]
fn the_writer_writes_the_golden_files_of_the_present_version() {
    // Obsolete files are removed once no thread of the process reads.
    own_process!();
    let folder = golden().join("v1");
    let made = set::golden().unwrap();
    let told: String = made.told.iter().map(|line| format!("{line}\n")).collect();
    let expected = std::fs::read_to_string(folder.join("expected.jsonl")).unwrap();
    let expected = expected.lines().filter(|line| !is_left_out(line));
    assert_eq!(
        told,
        expected.map(|line| format!("{line}\n")).collect::<String>(),
        "{HOW_TO_GO_ON}"
    );
    let versions: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("versions.json")).unwrap())
            .unwrap();
    let same_hands = versions == set::versions();
    for file in made.files.iter().filter(|f| f.path != "versions.json") {
        let kept = OsEnv::new().read_all(&folder.join(&file.path), 1 << 20).unwrap();
        assert_eq!(
            meaning(&file.path, &kept),
            meaning(&file.path, &file.bytes),
            "{}\n{HOW_TO_GO_ON}",
            file.path
        );
        assert!(!same_hands || kept == file.bytes, "{}\n{HOW_TO_GO_ON}", file.path);
    }
}

#[test]
fn the_meaning_of_a_table_leaves_out_only_what_others_decide() {
    let recipe = tables::few().into_iter().find(|r| r.shape == "puts").unwrap();
    let of = |r: tables::Recipe| meaning_of_table(&r.table().unwrap(), r.id);
    let lines = |r: tables::Recipe| of(r).lines().map(String::from).collect::<Vec<_>>();
    let (raw, lz4) = [firn_kv::Compression::None, firn_kv::Compression::Lz4]
        .map(|compression| tables::Recipe { compression, ..recipe })
        .into();
    let differ = lines(raw).iter().zip(lines(lz4)).filter(|(a, b)| *a != b).count();
    assert_eq!(differ, 1, "only the property `compression` differs");
    assert_ne!(of(recipe), of(tables::Recipe { level: recipe.level + 1, ..recipe }));
    assert_ne!(of(recipe), of(tables::Recipe { block_size: 1000, ..recipe }));
}
