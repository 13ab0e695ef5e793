//! A folder of Parquet files with the changes of a store, each of them once.
//!
//! | file | content |
//! |---|---|
//! | `N-snapshot.parquet` | keys and rows of the present state at the change `N` |
//! | `N-changes.parquet` | changes up to `N`, after those of the file before |
//!
//! `N` has 20 digits, so files sort by their changes. A snapshot replaces all files before it.
//!
//! Invariant: a file appears under its name when it is complete and durable, with the position
//! behind its last change in its metadata. Only then the change is acknowledged. So after a kill at
//! any moment the folder continues behind its last file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firn_changes::{ChangeDecoder, ChangeEvent, ChangeKind, ChangeSource};
use firn_kv::{ChangePosition, Db, ErrorKind, OsEnv, Subscription};
use firn_tools::io;
use firn_tools::output::{Done, Failure};
use firn_transfer::export::{ExportColumn, ExportSettings, RowSink, create};
use firn_transfer::format::TransferFormat;
use firn_wide::Type;
use parquet::file::reader::{FileReader, SerializedFileReader};

/// Name of the subscription.
const NAME: &str = "change-folder";
/// Name of the position in the metadata of files.
pub const POSITION: &str = "firn.position";
/// Events after which a file ends, unless a program chooses another number.
const FILE_EVENTS: usize = 50_000;
/// Bytes of events after which a file ends.
const FILE_BYTES: usize = 64 << 20;
/// Longest wait for a change. A file ends when none came.
const WAIT: Duration = Duration::from_millis(200);

/// A folder of changes.
#[derive(Debug)]
pub struct ChangeFolder {
    dir: PathBuf,
    /// Events after which a file ends.
    file_events: usize,
    /// Position of the last file.
    position: Option<ChangePosition>,
    /// Events behind that position, their bytes, and the position behind them.
    events: Vec<ChangeEvent>,
    bytes: usize,
    behind: Option<ChangePosition>,
}

impl ChangeFolder {
    /// Opens a folder, and creates it if it is missing. Removes files that a kill left: unfinished
    /// ones, and those before the last snapshot.
    ///
    /// # Errors
    /// Errors of the system; the last file is not one of this program.
    pub fn open(dir: &Path) -> Done<ChangeFolder> {
        io::make_dirs(dir)?;
        let names = io::list(dir)?;
        let is_snapshot = |name: &&String| name.ends_with("-snapshot.parquet");
        let first = names.iter().rfind(is_snapshot).cloned().unwrap_or_default();
        let is_old = |name: &&String| name.ends_with(".unfinished") || **name < first;
        for name in names.iter().filter(is_old) {
            io::remove(&dir.join(name))?;
        }
        let last = names.iter().rfind(|name| name.ends_with(".parquet"));
        let position = last.map(|name| position_of(&dir.join(name))).transpose()?;
        let dir = dir.to_path_buf();
        let file_events = FILE_EVENTS;
        Ok(ChangeFolder { dir, file_events, position, events: vec![], bytes: 0, behind: None })
    }

    /// Sets the number of events after which a file ends. A change is never divided.
    pub fn with_file_events(self, file_events: usize) -> ChangeFolder {
        ChangeFolder { file_events, ..self }
    }

    /// Writes the changes of a store until `is_over` is set and no change is left. `hold_log` is
    /// the maximum of log, in bytes, that the store retains for the folder.
    ///
    /// # Errors
    /// Errors of the store and of the system.
    pub fn follow(
        &mut self,
        db: &Db,
        decoder: &mut ChangeDecoder,
        hold_log: u64,
        is_over: &AtomicBool,
    ) -> Done {
        let mut changes = db.subscribe(NAME, hold_log)?;
        match self.position.map(|position| changes.resume(position)) {
            Some(Ok(())) => {}
            // The log is gone, or the folder belongs to another store.
            Some(Err(e)) if !must_copy(&e) => return Err(e.into()),
            _ => self.copy(db, decoder, &mut changes)?,
        }
        loop {
            let is_last = is_over.load(Ordering::Acquire);
            match changes.next(WAIT) {
                Ok(Some(change)) if change.is_loaded() => self.copy(db, decoder, &mut changes)?,
                Ok(Some(change)) => {
                    let position = changes.position();
                    decoder.events(&change, position, &mut |event| {
                        self.bytes += event.key_json().len() + event.columns_json().len();
                        self.events.push(event);
                        Ok(())
                    })?;
                    self.behind = Some(position);
                    if self.events.len() >= self.file_events || self.bytes >= FILE_BYTES {
                        self.finish(&mut changes)?;
                    }
                }
                Ok(None) if !self.events.is_empty() => self.finish(&mut changes)?,
                Ok(None) if is_last => return Ok(()),
                Ok(None) => {}
                Err(e) if must_copy(&e) => self.copy(db, decoder, &mut changes)?,
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Writes a file of the present state, and removes all others.
    fn copy(&mut self, db: &Db, decoder: &mut ChangeDecoder, changes: &mut Subscription) -> Done {
        (self.events, self.bytes, self.behind) = (vec![], 0, None);
        let before = io::list(&self.dir)?;
        let snapshot = changes.snapshot()?;
        let position = changes.position();
        let name = format!("{:020}-snapshot.parquet", position.seq);
        let mut sink = self.create(&name, position)?;
        decoder.snapshot(db, &snapshot, position, &mut |event| put(&mut *sink, &event))?;
        self.publish(sink, position)?;
        for old in before.iter().filter(|old| **old != name) {
            io::remove(&self.dir.join(old))?;
        }
        Ok(changes.acknowledge(position.seq)?)
    }

    /// Writes a file of the collected events, then releases the log.
    fn finish(&mut self, changes: &mut Subscription) -> Done {
        let Some(position) = self.behind.take() else { return Ok(()) };
        let mut sink = self.create(&format!("{:020}-changes.parquet", position.seq), position)?;
        for event in self.events.drain(..) {
            put(&mut *sink, &event)?;
        }
        self.bytes = 0;
        self.publish(sink, position)?;
        Ok(changes.acknowledge(position.seq)?)
    }

    /// Creates a file, which has another name until it is complete.
    fn create(&self, name: &str, position: ChangePosition) -> Done<Box<dyn RowSink>> {
        let metadata = vec![(POSITION.to_owned(), position.to_string())];
        let settings = ExportSettings { metadata, ..ExportSettings::default() };
        create(&self.dir.join(name), TransferFormat::Parquet, &columns(), &settings)
    }

    /// Completes a file: syncs it, gives it its name, and syncs the folder.
    fn publish(&mut self, sink: Box<dyn RowSink>, position: ChangePosition) -> Done {
        sink.finish()?;
        OsEnv::new().sync_dir(&self.dir)?;
        self.position = Some(position);
        Ok(())
    }
}

/// Returns the columns of the files.
fn columns() -> Vec<ExportColumn> {
    let column = |(name, value_type): (&str, Type)| ExportColumn {
        name: name.to_owned(),
        value_type,
        is_raw: false,
    };
    let text = |name| (name, Type::Utf8);
    [
        ("seq", Type::Long),
        text("source"),
        text("op"),
        ("timestamp", Type::Long),
        text("key"),
        text("columns"),
    ]
    .map(column)
    .to_vec()
}

/// Writes an event.
fn put(sink: &mut dyn RowSink, event: &ChangeEvent) -> Done {
    // The consumer of the files cannot apply what the log does not have.
    debug_assert!(event.kind != ChangeKind::Load, "copied instead");
    let source = match &event.source {
        ChangeSource::Store => String::new(),
        ChangeSource::Tree(name) => name.clone(),
        ChangeSource::Table { keyspace, name } => format!("{keyspace}.{name}"),
    };
    let (key, columns) = (event.key_json(), event.columns_json());
    let timestamp = event.timestamp.map(i64::to_be_bytes);
    sink.row(&[
        Some(&event.position.seq.to_be_bytes()),
        Some(source.as_bytes()),
        Some(event.kind.name().as_bytes()),
        timestamp.as_ref().map(|bytes| &bytes[..]),
        Some(key.as_bytes()),
        Some(columns.as_bytes()),
    ])
}

/// Reads the position in the metadata of a file.
fn position_of(path: &Path) -> Done<ChangePosition> {
    let wrong = |why: String| Failure::new(format!("cannot read {}: {why}", path.display()));
    let file: File = io::open(path)?;
    let reader = SerializedFileReader::new(file).map_err(|e| wrong(e.to_string()))?;
    let entries = reader.metadata().file_metadata().key_value_metadata();
    let entry = entries.into_iter().flatten().find(|entry| entry.key == POSITION);
    let value = entry.and_then(|entry| entry.value.as_deref());
    Ok(value.ok_or_else(|| wrong(format!("it has no {POSITION}: remove it")))?.parse()?)
}

/// Reports whether the state must be copied: the log has lost changes, or the position is not one
/// of this store.
fn must_copy(e: &firn_kv::Error) -> bool {
    matches!(e.kind(), ErrorKind::Lagged | ErrorKind::InvalidArgument)
}
