//! Receives a copy of the primary's store, and puts it in the place of the replica's store.
//!
//! The files arrive in the directory `.incoming` below that of the replica; `CURRENT` is named last, so
//! with it the copy is complete. Then the files of the old store are removed, the file `EMPTIED` is
//! created, and the files of the copy are linked into the place, `CURRENT` last.
//!
//! Invariant: after a crash at any moment, the directory has the old store, or nothing that opens as a
//! store and a complete copy, which [`finish`] puts in its place.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_kv::{ChangePosition, Env, Error, ErrorKind, Result};

use crate::message::{DATA_FRAME, Message, receive, unexpected};

const INCOMING: &str = ".incoming";
const CURRENT: &str = "CURRENT";
const PART: &str = "CURRENT.part";
const EMPTIED: &str = "EMPTIED";
/// Lock of a replica's directory, while it is not open as a store, too.
pub const REPLICA_LOCK: &str = ".replica.lock";
/// File with the position of a copy, until the store itself has it.
const POSITION: &str = ".replica.position";
/// Files of a directory that are no part of the store.
const OTHERS: [&str; 3] = [INCOMING, REPLICA_LOCK, "LOCK"];

/// Progress of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyProgress {
    /// Bytes of the copy.
    pub bytes: u64,
    /// Bytes that have arrived.
    pub received: u64,
}

/// Returns the names in a directory; none if it is missing.
fn list(env: &dyn Env, dir: &Path) -> Result<Vec<String>> {
    match env.list(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(vec![]),
        names => names,
    }
}

fn remove_incoming(env: &dyn Env, dir: &Path) -> Result<()> {
    let incoming = dir.join(INCOMING);
    let names = list(env, &incoming)?;
    if !list(env, dir)?.iter().any(|name| name == INCOMING) && names.is_empty() {
        return Ok(());
    }
    // Without `CURRENT` the rest is no copy. As long as it is there, `EMPTIED` must be, too.
    if names.iter().any(|name| name == CURRENT) {
        env.remove(&incoming.join(CURRENT))?;
        env.sync_dir(&incoming)?;
    }
    for name in names.iter().filter(|n| *n != CURRENT) {
        env.remove(&incoming.join(name))?;
    }
    env.remove_dir(&incoming)?;
    env.sync_dir(dir)
}

/// Reports whether a directory has a store.
///
/// # Errors
/// Errors of the file system.
pub fn has_store(env: &dyn Env, dir: &Path) -> Result<bool> {
    Ok(list(env, dir)?.iter().any(|name| name == CURRENT))
}

/// Puts a complete copy into its place, and removes an incomplete one. The store must be closed.
///
/// # Errors
/// Errors of the file system. The call can be repeated.
pub fn finish(env: &dyn Env, dir: &Path) -> Result<()> {
    let incoming = dir.join(INCOMING);
    let names = list(env, &incoming)?;
    if !names.iter().any(|name| name == CURRENT) {
        return remove_incoming(env, dir);
    }
    if !names.iter().any(|name| name == EMPTIED) {
        let mut old: Vec<String> = list(env, dir)?;
        old.retain(|name| !OTHERS.contains(&&**name));
        // Without `CURRENT` the rest is no store.
        old.sort_by_key(|name| name != CURRENT);
        for name in &old {
            env.remove(&dir.join(name))?;
        }
        env.sync_dir(dir)?;
        env.create(&incoming.join(EMPTIED))?.sync()?;
        env.sync_dir(&incoming)?;
    }
    // Links, because a power cut may lose both names of a file that is renamed into another
    // directory.
    let there = list(env, dir)?;
    let link = |name: &String| match there.contains(name) {
        true => Ok(()),
        false => env.hard_link(&incoming.join(name), &dir.join(name)),
    };
    names.iter().filter(|n| *n != CURRENT && *n != EMPTIED).try_for_each(link)?;
    env.sync_dir(dir)?;
    link(&CURRENT.to_owned())?;
    env.sync_dir(dir)?;
    remove_incoming(env, dir)
}

/// Returns the position of a copy whose store does not have it yet.
///
/// # Errors
/// Errors of the file system, and a damaged file.
pub fn copied_position(env: &dyn Env, dir: &Path) -> Result<Option<ChangePosition>> {
    if !list(env, dir)?.iter().any(|name| name == POSITION) {
        return Ok(None);
    }
    let bytes = env.read_all(&dir.join(POSITION), 64)?;
    String::from_utf8_lossy(&bytes).parse().map(Some)
}

/// Removes the position of a copy: its store has it now.
///
/// # Errors
/// Errors of the file system.
pub fn forget_position(env: &dyn Env, dir: &Path) -> Result<()> {
    env.remove(&dir.join(POSITION))
}

/// Reports whether a file of a store may have this name: no part of a path.
fn is_file_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !name.is_empty()
        && name.len() <= 255
        && !name.starts_with('.')
        && name.chars().all(allowed)
        && !OTHERS.contains(&name)
        && ![PART, EMPTIED].contains(&name)
}

/// Receives a copy of this store after its first message. `progress` is called with each part.
///
/// # Errors
/// Errors of the connection and the file system.
pub fn receive_copy(
    env: &Arc<dyn Env>,
    dir: &Path,
    from: &mut impl Read,
    (store, bytes): (u64, u64),
    mut progress: impl FnMut(CopyProgress) -> Result<()>,
) -> Result<()> {
    remove_incoming(&**env, dir)?;
    let incoming = dir.join(INCOMING);
    env.create_dir_all(&incoming)?;
    env.sync_dir(dir)?;
    let mut received = 0;
    let mut has_current = false;
    loop {
        let (len, name) = match receive(from, DATA_FRAME)? {
            Message::File { len, name } => (len, name),
            Message::Copied { seq } if has_current => {
                let mut file = env.create(&incoming.join(POSITION))?;
                file.append(ChangePosition { store, seq }.to_string().as_bytes())?;
                file.sync()?;
                env.sync_dir(&incoming)?;
                env.rename(&incoming.join(PART), &incoming.join(CURRENT))?;
                env.sync_dir(&incoming)?;
                return Ok(());
            }
            Message::Refuse { reason } => return Err(Error::new(ErrorKind::Io, reason)),
            other => return Err(unexpected(&other)),
        };
        if !is_file_name(&name) || has_current {
            return Err(Error::corruption(format!("{name:?} is no name of a store's file")));
        }
        has_current = name == CURRENT;
        let path: PathBuf = incoming.join(if has_current { PART } else { &name });
        let mut file = env.create(&path)?;
        while file.len() < len {
            match receive(from, DATA_FRAME)? {
                Message::Data { bytes } if bytes.len() as u64 <= len - file.len() => {
                    file.append(&bytes)?;
                    received += bytes.len() as u64;
                }
                Message::Refuse { reason } => return Err(Error::new(ErrorKind::Io, reason)),
                other => return Err(unexpected(&other)),
            }
            progress(CopyProgress { bytes, received })?;
        }
        file.sync()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_copied_file_is_no_path() {
        for good in ["CURRENT", "000012.sst", "MANIFEST-000001", "a_b.blob"] {
            assert!(is_file_name(good), "{good}");
        }
        for bad in
            ["", ".", "..", "../x", "/etc/passwd", "a/b", "a\\b", ".x", "LOCK", "EMPTIED", "é"]
        {
            assert!(!is_file_name(bad), "{bad}");
        }
    }
}
