//! File of a journal: lines of JSON, the first of which identifies it. The last line of a complete
//! migration is [`COMPLETE`]: such a journal does not prevent another migration.
//!
//! Invariants: an incomplete line is ignored, and is removed before others follow. If two processes
//! resume a journal at once, one is refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::{Env, ErrorKind};

use firn_kv::fs::{FileLock, WriteFile};
use firn_tools::output::{Done, Failure};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Largest journal that can be read, in bytes.
const MAX_JOURNAL: u64 = 4 << 30;

/// Last line of a journal of a complete migration.
const COMPLETE: &[u8] = b"{\"complete\":{}}";

/// A journal file open for writing.
pub(crate) struct JournalFile {
    path: PathBuf,
    file: Mutex<Box<dyn WriteFile>>,
    /// Prevents others from resuming it meanwhile.
    _lock: Box<dyn FileLock>,
}

fn read(env: &Arc<dyn Env>, path: &Path) -> Done<Option<Vec<u8>>> {
    match env.read_all(path, MAX_JOURNAL) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Returns the path with a suffix.
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

/// Reports whether the last complete line of a journal is [`COMPLETE`].
fn is_complete(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    lines.next_back() == Some(COMPLETE)
}

/// Returns the contents of a journal after opening: existing lines, or those of a new one.
fn lines_to_keep<L: Serialize + DeserializeOwned>(
    there: Option<Vec<u8>>,
    path: &Path,
    head: &L,
    resume: bool,
    mut take: impl FnMut(usize, L) -> Result<(), String>,
) -> Done<Vec<u8>> {
    let Some(mut bytes) = there else {
        return if resume { Err(no_journal(path, "it is not there")) } else { line_of(head) };
    };
    if !resume {
        if !is_complete(&bytes) {
            return Err(Failure::with_next(
                format!("{} is the journal of a migration that was begun", path.display()),
                "--resume goes on with it; remove it to begin anew, which counters need empty tables for",
            ));
        }
        let first = bytes.split(|b| *b == b'\n').next().unwrap_or_default();
        let first = serde_json::from_slice(first).map_err(|e| e.to_string());
        return match first.and_then(|line| take(0, line)) {
            Ok(()) => Err(Failure::with_next(
                format!("this migration is complete: {} says so", path.display()),
                "--verify compares both sides; --resume --follow sends later writes to a store; \
                 remove the journal to begin anew",
            )),
            // It belongs to another migration, which is complete.
            Err(_) => line_of(head),
        };
    }
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
    Ok(bytes)
}

impl JournalFile {
    /// Checks the conditions of [`open`](JournalFile::open) without any change.
    ///
    /// # Errors
    /// As [`open`](JournalFile::open), except that the journal may be in use.
    pub fn check<L: Serialize + DeserializeOwned>(
        env: &Arc<dyn Env>,
        path: &Path,
        head: &L,
        resume: bool,
        take: impl FnMut(usize, L) -> Result<(), String>,
    ) -> Done {
        let there = read(env, path)?.filter(|bytes| !bytes.is_empty());
        lines_to_keep(there, path, head, resume, take).map(drop)
    }

    /// Creates a journal with this line, or continues the existing one: `take` checks each of its
    /// lines, with its number. A complete journal of another migration is replaced.
    ///
    /// # Errors
    /// A journal that exists without `resume`; with `resume`, one that is missing or has an invalid
    /// line; a complete one of the same migration; file errors.
    pub fn open<L: Serialize + DeserializeOwned>(
        env: &Arc<dyn Env>,
        path: &Path,
        head: &L,
        resume: bool,
        take: impl FnMut(usize, L) -> Result<(), String>,
    ) -> Done<JournalFile> {
        let lock = env.lock(&beside(path, ".lock"))?;
        let there = read(env, path)?.filter(|bytes| !bytes.is_empty());
        let kept = lines_to_keep(there, path, head, resume, take)?;
        // Rewrite it, so that no incomplete line remains in the middle.
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

    /// Appends a line; with `durable`, syncs it.
    ///
    /// # Errors
    /// File errors.
    pub fn add(&self, line: &impl Serialize, durable: bool) -> Done {
        let bytes = line_of(line)?;
        let mut file = self.file.lock();
        file.append(&bytes)?;
        if durable {
            file.sync()?;
        }
        Ok(())
    }

    /// Records that the migration is complete, as the last line.
    ///
    /// # Errors
    /// File errors.
    pub fn complete(&self) -> Done {
        let mut file = self.file.lock();
        file.append(&[COMPLETE, b"\n"].concat())?;
        Ok(file.sync()?)
    }

    /// Returns the path of the journal.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use firn_kv::MemEnv;
    use firn_kv::OsEnv;

    use super::*;

    fn open(env: &Arc<dyn Env>, of: &str, resume: bool) -> Done<JournalFile> {
        let take = |number: usize, line: serde_json::Value| match number {
            0 if line != of => Err("it is of another".to_owned()),
            _ => Ok(()),
        };
        JournalFile::open(env, Path::new("/journal"), &serde_json::json!(of), resume, take)
    }

    #[test]
    fn one_that_is_complete_bars_only_the_same_migration() {
        let env: Arc<dyn Env> = Arc::new(MemEnv::new(OsEnv::new().random()));
        env.create_dir_all(Path::new("/")).unwrap();
        let refusal = |refused: Done<JournalFile>| format!("{:?}", refused.err().unwrap());
        let begun = open(&env, "a", false).unwrap();
        begun.add(&"a line", true).unwrap();
        drop(begun);
        for of in ["a", "b"] {
            assert!(refusal(open(&env, of, false)).contains("that was begun"), "{of}");
        }
        open(&env, "a", true).unwrap().complete().unwrap();
        let complete = refusal(open(&env, "a", false));
        assert!(complete.contains("this migration is complete"), "{complete}");
        // After more lines it is incomplete until completed again.
        open(&env, "a", true).unwrap().add(&"more", true).unwrap();
        assert!(refusal(open(&env, "a", false)).contains("that was begun"));
        open(&env, "a", true).unwrap().complete().unwrap();
        assert!(refusal(open(&env, "b", true)).contains("it is of another"));
        drop(open(&env, "b", false).unwrap());
        assert!(refusal(open(&env, "b", false)).contains("that was begun"));
    }
}
