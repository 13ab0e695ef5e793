//! Targets of the commands: a table or blob file, a log segment, a manifest or a whole store. Also
//! opens tables and blob files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_cassandra::NodeFolder;
use firn_kv::Env;
use firn_kv::OsEnv;
use firn_kv::fs::ReadFile;
use firn_kv::internals::base::format_version::FormatVersion;
use firn_kv::internals::base::key::Seq;
use firn_kv::internals::block_cache::Cache;
use firn_kv::internals::manifest::{Manifest, ManifestState, manifest_number};
use firn_kv::internals::sstable::format::{BLOCK_HEADER, BlockHeader, FOOTER, Footer};
use firn_kv::internals::sstable::{BlobFile, Maps, Table};
use firn_kv::internals::wal::{KnownSegments, segment_number};
use firn_kv::{Error, ErrorKind, Result};
use firn_tools::io;
use firn_tools::output::{Done, Failure};

/// Maximum number of bytes allocated for one block, stored or decoded.
pub const MAX_BLOCK: u64 = 1 << 30;

/// Kind of a file or directory, and the number in its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A table or a blob file; `None` if its name has no number.
    Table(Option<u64>),
    /// A log segment.
    Wal(u64),
    /// A manifest.
    Manifest(u64),
    /// A store's directory.
    Store,
}

impl TargetKind {
    /// Returns the kind of a file with this name. Any other file counts as a table.
    pub fn of_name(name: &str) -> TargetKind {
        match (segment_number(name), manifest_number(name)) {
            (Some(n), _) => TargetKind::Wal(n),
            (_, Some(n)) => TargetKind::Manifest(n),
            _ => TargetKind::Table(table_number(name)),
        }
    }
}

/// Returns the file system.
pub fn env() -> Arc<dyn Env> {
    OsEnv::new()
}

/// Returns the kind of `path` by its name. Any other file counts as a table.
pub fn kind(path: &Path) -> Done<TargetKind> {
    if io::is_dir(path) {
        return Ok(TargetKind::Store);
    }
    if !io::exists(path) {
        let e = Error::new(ErrorKind::NotFound, "there is no such file or directory").in_file(path);
        return Err(Failure::Engine(e));
    }
    if NodeFolder::is_data(path) {
        return Err(Failure::with_next(
            format!("{} is a table of Cassandra", path.display()),
            "`sstable-dump cassandra FILE` reads it, `firn import --cassandra FILE` makes a store of it",
        ));
    }
    Ok(TargetKind::of_name(file_name(path)))
}

/// Returns the number in a table's file name; `None` if it is no table's name.
pub fn table_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".sst")?;
    digits.parse().ok().filter(|_| digits.len() >= 8)
}

/// Returns the directory of a file, for functions that take directory and number.
pub fn dir_of(path: &Path) -> PathBuf {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf()
}

/// Copies a file durably.
///
/// # Errors
/// I/O errors.
pub fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let env = env();
    let file = env.open_read(from, false)?;
    let mut out = env.create(to)?;
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < file.len() {
        let n = (file.len() - at).min(buffer.len() as u64) as usize;
        file.read_at(at, &mut buffer[..n])?;
        out.append(&buffer[..n])?;
        at += n as u64;
    }
    out.sync()
}

/// Opens a table's file and returns its id: from a sound footer, whatever the file name, or else
/// from the name.
pub fn table_file(path: &Path) -> Result<(Arc<dyn ReadFile>, u64)> {
    let file = env().open_read(path, false)?;
    let mut f = [0; FOOTER];
    let at = file.len().saturating_sub(FOOTER as u64);
    if file.len() >= FOOTER as u64 {
        file.read_at(at, &mut f)?;
    }
    let named = table_number(file_name(path));
    let id = Footer::own_id(&f, at)
        .or(named)
        .unwrap_or_else(|| u64::from_le_bytes([f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]]));
    Ok((file, id))
}

/// Returns a note if the file name has the number of another table.
pub fn misnamed(path: &Path, id: u64) -> Option<String> {
    let named = table_number(file_name(path)).filter(|&n| n != id)?;
    Some(format!(
        "{}: this file holds table {id}, not table {named}: it is read as table {id}",
        path.display()
    ))
}

fn file_name(path: &Path) -> &str {
    path.file_name().and_then(|n| n.to_str()).unwrap_or_default()
}

/// Returns the state of the store in `dir` from its manifest.
///
/// # Errors
/// `NotFound` if there is no store, and errors of [`Manifest::load`].
pub fn state_of(dir: &Path) -> Result<ManifestState> {
    let found = Manifest::load(&*env(), dir)?;
    found.map(|(state, _)| state).ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "there is no store in this directory").in_file(dir)
    })
}

/// Returns the information about the log in a manifest with this state.
pub fn known(state: &ManifestState) -> KnownSegments<'_> {
    let durable = state.trees.values().map(|t| t.flushed).max().unwrap_or(0);
    KnownSegments { store: state.id, durable, writers: Some(&state.writers) }
}

/// Reports whether this file ends with the sound footer of a blob file.
///
/// # Errors
/// I/O errors; damage is no error.
pub fn is_of_values(file: &dyn ReadFile) -> Result<bool> {
    let Some(at) = file.len().checked_sub(FOOTER as u64) else { return Ok(false) };
    let mut f = [0; FOOTER];
    file.read_at(at, &mut f)?;
    let footer =
        Footer::own_id(&f, at).and_then(|id| Footer::decode(&f, Path::new(""), id, at).ok());
    Ok(footer.is_some_and(|f| f.is_of_values()))
}

/// Reads the footer `f` of file `id` at `offset`, as the engine does. But a version that is only
/// newer because of damage is not accepted as newer: the checksum matches a version that this build
/// reads.
///
/// # Errors
/// `Corruption` for such a version, else errors of [`Footer::decode`].
pub fn footer(f: &[u8; FOOTER], path: &Path, id: u64, offset: u64) -> Result<Footer> {
    Footer::decode(f, path, id, offset).map_err(|e| {
        let is_of = |version: &u32| {
            let mut f = *f;
            f[60..64].copy_from_slice(&version.to_le_bytes());
            Footer::own_id(&f, offset).is_some()
        };
        match (1..=FormatVersion::newest().number()).find(is_of) {
            Some(version) if e.kind() == ErrorKind::Incompatible => {
                let words =
                    format!("the version is damaged: the checksum is right for version {version}");
                Error::corruption(words).at(path, offset).block("footer")
            }
            _ => e,
        }
    })
}

/// Returns the footer of `file`, which is table or blob file `id`; `None` if the file is too short.
fn footer_of(file: &dyn ReadFile, path: &Path, id: u64) -> Result<Option<Footer>> {
    let Some(at) = file.len().checked_sub(FOOTER as u64) else { return Ok(None) };
    let mut f = [0; FOOTER];
    file.read_at(at, &mut f)?;
    footer(&f, path, id, at).map(Some)
}

/// Opens `file` as blob file `id`.
///
/// # Errors
/// As [`BlobFile::open`], and [`footer`].
pub fn open_values(file: Arc<dyn ReadFile>, path: &Path, id: u64) -> Result<Arc<BlobFile>> {
    footer_of(&*file, path, id)?;
    BlobFile::open(file, path, id, Cache::new(1 << 20), Maps::new(true))
}

/// Opens a table.
///
/// # Errors
/// As [`Table::open`] and [`footer`]; `Corruption` for a table with a block over [`MAX_BLOCK`];
/// `InvalidArgument` for a blob file.
pub fn open_table(path: &Path) -> Result<Arc<Table>> {
    let (file, id) = table_file(path)?;
    if let Some(note) = misnamed(path, id) {
        eprintln!("note: {note}");
    }
    if is_of_values(&*file)? {
        let words = "this is a blob file, which has values of tables and no entries of its own: `layout FILE --blocks` lists them, \
                     `scan` of a table shows its own";
        return Err(Error::invalid(words).in_file(path));
    }
    open_file(file, path, id, 0)
}

/// Opens `file` as table `id`; `seq` is the sequence number of an ingested table's entries, 0 for
/// others.
///
/// # Errors
/// As [`open_table`].
pub fn open_file(file: Arc<dyn ReadFile>, path: &Path, id: u64, seq: Seq) -> Result<Arc<Table>> {
    if let Some(footer) = footer_of(&*file, path, id)? {
        let at = footer.offset();
        let parts =
            [footer.data_len, footer.tombstones_at(), footer.index_at(), footer.properties_at()];
        for offset in parts.into_iter().filter(|&o| o + BLOCK_HEADER as u64 <= at) {
            let mut h = [0; BLOCK_HEADER];
            file.read_at(offset, &mut h)?;
            let large =
                BlockHeader::read(&h).is_ok_and(|h| h.raw_len.max(h.stored_len) as u64 > MAX_BLOCK);
            if large {
                return Err(Error::corruption(
                    "a block over 1 GiB: no tool takes that much memory",
                )
                .at(path, offset));
            }
        }
    }
    Table::open_ingested(file, path, id, Cache::new(1 << 20), seq)
}
