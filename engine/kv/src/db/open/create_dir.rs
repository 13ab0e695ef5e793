//! Creates the directory and the id of a new store.

use std::path::Path;

use crate::base::error::Result;
use crate::env::Env;

/// Creates a directory with its missing parents, and makes their names survive a power cut.
///
/// Works from the top down, and makes each name durable before it creates the next. So of the
/// existing directories only the lowest may have a name that a crash left without a sync. That name
/// is synced too.
pub fn create_dir(env: &dyn Env, dir: &Path) -> Result<()> {
    let parent_of = |d: &Path| {
        d.parent().map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p }.to_path_buf())
    };
    let mut missing = vec![];
    let mut at = Some(dir);
    while let Some(d) = at.filter(|d| !d.as_os_str().is_empty() && env.list(d).is_err()) {
        missing.push(d);
        at = d.parent();
    }
    if let Some(parent) = at.and_then(parent_of) {
        sync_found(env, &parent)?;
    }
    for d in missing.into_iter().rev() {
        env.create_dir_all(d)?;
        if let Some(parent) = parent_of(d) {
            env.sync_dir(&parent)?;
        }
    }
    Ok(())
}

/// Syncs an existing directory, unless permission is denied. In that case this program cannot have
/// created an entry in it.
fn sync_found(env: &dyn Env, dir: &Path) -> Result<()> {
    env.sync_dir(dir).or_else(|e| {
        if e.io_error().is_some_and(|s| s.kind() == std::io::ErrorKind::PermissionDenied) {
            Ok(())
        } else {
            Err(e)
        }
    })
}

/// Returns the id of a new Db.
pub fn new_id(env: &dyn Env) -> u64 {
    // The high bit gives the number the same encoded length in every manifest, so that equal
    // histories give files of equal length.
    env.random() | 1 << 63
}
