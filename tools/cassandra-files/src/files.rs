//! The parts of a table: their locations and names.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::fault::{NodeFault, NodeFaultKind};

/// The version for writing.
const WRITTEN: &str = "nb";
/// Buffer size in bytes.
const BUFFER: usize = 64 << 10;

/// A part of a table, opened for reading from its start.
pub struct NodePart {
    /// The bytes.
    pub reader: Box<dyn Read>,
    /// Their number.
    pub len: u64,
}

/// Location of the parts of one table: a directory, or memory in tests.
pub trait NodeFiles {
    /// Returns the version of the format from the file names, as `nb`.
    fn version(&self) -> &str;

    /// Returns the name of a part for messages.
    fn path(&self, part: &str) -> PathBuf;

    /// Opens a part (`Data.db`); `None` if it is missing.
    ///
    /// # Errors
    /// Errors of the system.
    fn open(&self, part: &str) -> io::Result<Option<NodePart>>;
}

/// A part of a table being written.
pub trait NodePartWriter: Write {
    /// Completes the part and syncs it.
    ///
    /// # Errors
    /// Errors of the system.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Target for the parts of one table: a directory, or memory in tests.
pub trait NodeSink {
    /// Returns the name of a part for messages.
    fn part_path(&self, part: &str) -> PathBuf;

    /// Creates a part (`Data.db`), which must not exist.
    ///
    /// # Errors
    /// Errors of the system.
    fn create(&self, part: &str) -> io::Result<Box<dyn NodePartWriter>>;
}

/// Advice for files of releases before 3.0.
pub(crate) const UPGRADE: &str = "`sstableupgrade` of Cassandra 3.0 or 3.11 writes it anew";

/// The files of a table in a directory; their names have a common stem.
#[derive(Clone, Debug)]
pub struct NodeFolder {
    dir: PathBuf,
    /// The stem up to and including the last hyphen: `nb-1-big-`.
    stem: String,
    version: String,
}

impl NodeFolder {
    /// Returns the files of the table that this file belongs to.
    ///
    /// # Errors
    /// `Unsupported` for a name that is not `VERSION-ID-FORMAT-PART`.
    pub fn of(file: &Path) -> Result<NodeFolder, NodeFault> {
        let name = file.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let parts: Vec<&str> = name.split('-').collect();
        // Before 2.2 a name began with the keyspace and the table: `ks-table-ka-1-Data.db`.
        if let [.., version, id, "Data.db"] = parts[..]
            && parts.len() >= 5
            && matches!(version.as_bytes(), [b'h'..=b'k', b'a'..=b'z'])
            && id.bytes().all(|b| b.is_ascii_digit())
        {
            return Err(NodeFault::new(
                NodeFaultKind::Unsupported,
                file,
                format!("this file is of Cassandra 2.1 or older (version {version}): {UPGRADE}"),
            ));
        }
        let [version, id, format @ ("big" | "bti"), part] = parts[..] else {
            return Err(NodeFault::new(
                NodeFaultKind::Unsupported,
                file,
                "this is no name of a table's file: those of Cassandra since 3.0 are VERSION-ID-big-Data.db or VERSION-ID-bti-Data.db",
            ));
        };
        let stem = name[..name.len() - part.len()].to_owned();
        if !is_word(version) || !is_word(id) {
            return Err(NodeFault::new(NodeFaultKind::Unsupported, file, "odd name of a table"));
        }
        // Trie-based versions begin with `d`.
        if (format == "bti") != version.starts_with('d') {
            return Err(NodeFault::new(
                NodeFaultKind::Unsupported,
                file,
                format!("version {version} is none of the format {format}"),
            ));
        }
        let dir = file.parent().unwrap_or(Path::new("")).to_path_buf();
        Ok(NodeFolder { dir, stem, version: version.to_owned() })
    }

    /// Returns the files to write with this number in a directory, in the version for writing:
    /// `nb`.
    pub fn numbered(dir: &Path, number: u64) -> NodeFolder {
        let version = WRITTEN.to_owned();
        NodeFolder { dir: dir.to_path_buf(), stem: format!("{version}-{number}-big-"), version }
    }

    /// Reports whether a file's name is that of a `Data.db`.
    pub fn is_data(file: &Path) -> bool {
        let name = file.file_name().and_then(|n| n.to_str());
        name.is_some_and(|n| n.ends_with("-Data.db")) && NodeFolder::of(file).is_ok()
    }
}

fn is_word(s: &str) -> bool {
    !s.is_empty() && s.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

// This decoder is independent of Firn and has no Env; nothing here is a part of a store.
#[allow(clippy::disallowed_methods, reason = "the files of another database, named by a user")]
impl NodeFiles for NodeFolder {
    fn version(&self) -> &str {
        &self.version
    }

    fn path(&self, part: &str) -> PathBuf {
        self.dir.join(format!("{}{part}", self.stem))
    }

    fn open(&self, part: &str) -> io::Result<Option<NodePart>> {
        let path = self.path(part);
        match fs::metadata(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
            // Opening a FIFO would block.
            Ok(found) if !found.is_file() => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "it is not a regular file",
                ));
            }
            Ok(_) => {}
        }
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Some(NodePart { reader: Box::new(file), len }))
    }
}

#[allow(clippy::disallowed_methods, reason = "the files of another database, named by a user")]
impl NodeSink for NodeFolder {
    fn part_path(&self, part: &str) -> PathBuf {
        self.path(part)
    }

    fn create(&self, part: &str) -> io::Result<Box<dyn NodePartWriter>> {
        let file = File::create_new(self.path(part))?;
        Ok(Box::new(BufWriter::with_capacity(BUFFER, file)))
    }
}

#[allow(clippy::disallowed_methods, reason = "the files of another database, named by a user")]
impl NodePartWriter for BufWriter<File> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        self.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

/// Properties of the format that depend on the version in a file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    /// Whether `Statistics.db` has checksums of its parts.
    pub(crate) statistics_checksums: bool,
    /// Whether `CompressionInfo.db` has the stored length from which on a chunk is uncompressed.
    pub(crate) plain_chunks: bool,
    /// Whether seconds of deletions are unsigned 32-bit numbers, and a partition without a deletion
    /// has a one-byte flag.
    pub(crate) unsigned_seconds: bool,
}

impl FileVersion {
    /// Parses a readable version: `ma` to `me` of 3.0 to 3.11 and ScyllaDB, `na` and `nb` of 4.0,
    /// 4.1 and, by default, 5.0; `oa` and `da` of 5.0.
    pub fn parse(version: &str) -> Option<FileVersion> {
        let of = |since_na, unsigned_seconds| FileVersion {
            statistics_checksums: since_na,
            plain_chunks: since_na,
            unsigned_seconds,
        };
        match version {
            "ma" | "mb" | "mc" | "md" | "me" => Some(of(false, false)),
            "na" | "nb" => Some(of(true, false)),
            "oa" | "da" => Some(of(true, true)),
            _ => None,
        }
    }
}

/// Returns keyspace and table of a file's directory, or of the parent of a snapshot or backup
/// directory: `KEYSPACE/TABLE-ID/…`, with an id of 32 hexadecimal digits.
///
/// ```
/// let file = "data/shop/orders-1c5f1e60e93811f1a361b9a761ea3300/snapshots/before/nb-1-big-Data.db";
/// let found = firn_cassandra::table_of_folder(file.as_ref());
/// assert_eq!(found, Some(("shop".to_owned(), "orders".to_owned())));
/// ```
pub fn table_of_folder(file: &Path) -> Option<(String, String)> {
    let mut above = file.ancestors().skip(1).map(|a| a.file_name().and_then(|n| n.to_str()));
    while let Some(name) = above.next() {
        let Some((table, id)) = name.and_then(|n| n.rsplit_once('-')) else { continue };
        if id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Some((above.next()??.to_owned(), table.to_owned()));
        }
    }
    None
}

pub(crate) fn open_part(files: &dyn NodeFiles, part: &str) -> Result<NodePart, NodeFault> {
    find_part(files, part)?.ok_or_else(|| {
        NodeFault::new(
            NodeFaultKind::Missing,
            &files.path(part),
            "there is no such file; a table needs its Data.db, its Statistics.db and, where it is compressed, its CompressionInfo.db",
        )
    })
}

pub(crate) fn find_part(files: &dyn NodeFiles, part: &str) -> Result<Option<NodePart>, NodeFault> {
    files.open(part).map_err(|e| NodeFault::io(&files.path(part), &e))
}

/// Reads all of a small part.
pub(crate) fn read_part(
    files: &dyn NodeFiles,
    part: &str,
    most: u64,
) -> Result<Option<Vec<u8>>, NodeFault> {
    let Some(found) = find_part(files, part)? else { return Ok(None) };
    if found.len > most {
        return Err(NodeFault::new(
            NodeFaultKind::Unsupported,
            &files.path(part),
            format!("it has {} bytes, and at most {most} are read", found.len),
        ));
    }
    let mut bytes = vec![];
    let mut reader = found.reader.take(most);
    reader.read_to_end(&mut bytes).map_err(|e| NodeFault::io(&files.path(part), &e))?;
    Ok(Some(bytes))
}
