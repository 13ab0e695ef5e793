//! The file of a journal: lines of JSON, the first of which says what it is of.
//!
//! Invariants: a line that was cut off counts for nothing, and is not in the middle when others
//! follow; of two who would go on with a journal at once, one is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::{Env, ErrorKind, FileLock, WriteFile};
use firn_tools::output::{Done, Failure};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The largest journal that is read, in bytes.
const MAX_JOURNAL: u64 = 4 << 30;

/// The file of a journal that is written.
pub(crate) struct JournalFile {
    path: PathBuf,
    file: Mutex<Box<dyn WriteFile>>,
    /// Keeps others from going on with it meanwhile.
    _lock: Box<dyn FileLock>,
}

fn read(env: &Arc<dyn Env>, path: &Path) -> Done<Option<Vec<u8>>> {
    match env.read_all(path, MAX_JOURNAL) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// The file of this name with an ending.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn no_journal(path: &Path, why: &str) -> Failure {
    Failure::with_next(
        format!("{} is no journal of a migration that can go on: {why}", path.display()),
        "name the right one with --journal, or leave out --resume and name a new one to begin anew",
    )
}

fn line_of(line: &impl Serialize) -> Done<Vec<u8>> {
    let mut bytes = serde_json::to_vec(line)
        .map_err(|e| Failure::new(format!("cannot write the journal: {e}")))?;
    bytes.push(b'\n');
    Ok(bytes)
}

impl JournalFile {
    /// Begins a journal with this line, or goes on with the one that is there: `take` is given each
    /// of its lines, with its number, and says what is wrong with it.
    ///
    /// # Errors
    /// One that is there and was not asked for, one that is asked for and is missing, or has a line
    /// that is wrong; those of files.
    pub fn open<L: Serialize + DeserializeOwned>(
        env: &Arc<dyn Env>,
        path: &Path,
        head: &L,
        resume: bool,
        mut take: impl FnMut(usize, L) -> Result<(), String>,
    ) -> Done<JournalFile> {
        let lock = env.lock(&beside(path, ".lock"))?;
        let there = read(env, path)?.filter(|bytes| !bytes.is_empty());
        let kept = match there {
            None if resume => return Err(no_journal(path, "it is not there")),
            None => line_of(head)?,
            Some(_) if !resume => {
                return Err(Failure::with_next(
                    format!("{} is the journal of a migration that was begun", path.display()),
                    "--resume goes on with it; remove it to begin anew, which counters need empty tables for",
                ));
            }
            Some(mut bytes) => {
                bytes.truncate(bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1));
                if bytes.is_empty() {
                    return Err(no_journal(path, "it does not begin as one"));
                }
                let lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
                for (number, line) in lines.enumerate() {
                    let line = serde_json::from_slice(line).map_err(|e| e.to_string());
                    let why = |e: String| no_journal(path, &format!("line {}: {e}", number + 1));
                    line.and_then(|line| take(number, line)).map_err(why)?;
                }
                bytes
            }
        };
        // Written anew beside it, so that a line that was cut off is not in the middle.
        let anew = beside(path, ".new");
        let mut file = env.create(&anew)?;
        file.append(&kept)?;
        file.sync()?;
        drop(file);
        env.rename(&anew, path)?;
        let dir = path.parent().filter(|p| !p.as_os_str().is_empty());
        env.sync_dir(dir.unwrap_or(Path::new(".")))?;
        let file = Mutex::new(env.append(path)?);
        Ok(JournalFile { path: path.to_owned(), file, _lock: lock })
    }

    /// Adds a line, which is on the device where that is asked for.
    ///
    /// # Errors
    /// Those of files.
    pub fn add(&self, line: &impl Serialize, durable: bool) -> Done {
        let bytes = line_of(line)?;
        let mut file = self.file.lock();
        file.append(&bytes)?;
        if durable {
            file.sync()?;
        }
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
