//! Where a repository is, as people write it.

use std::sync::Arc;

use firn_kv::{Env, Error, Result};

use crate::folder::FolderPlace;
use crate::place::BackupPlace;

/// The place of this address: a folder of `env`, or `s3://bucket/prefix` with the feature `s3`.
/// Nothing is read yet.
///
/// # Errors
/// `InvalidArgument` for an address of another kind or none, and what is said of the settings of
/// S3.
pub fn open_place(env: &Arc<dyn Env>, address: &str) -> Result<Arc<dyn BackupPlace>> {
    // As a path it would be the current directory, and what lies there would not be seen.
    if address.is_empty() {
        return Err(Error::invalid("no place of backups is named; name a folder"));
    }
    match address.split_once("://") {
        None => Ok(Arc::new(FolderPlace::new(env.clone(), address))),
        Some((scheme, _)) => other(scheme, address),
    }
}

#[cfg(feature = "s3")]
fn other(scheme: &str, address: &str) -> Result<Arc<dyn BackupPlace>> {
    match scheme {
        "s3" => Ok(Arc::new(crate::object::ObjectPlace::s3(address)?)),
        _ => Err(unknown(address, "a folder or s3://bucket/prefix")),
    }
}

#[cfg(not(feature = "s3"))]
fn other(scheme: &str, address: &str) -> Result<Arc<dyn BackupPlace>> {
    let can = match scheme {
        "s3" => "a folder; for S3, build with `--features s3`",
        _ => "a folder",
    };
    Err(unknown(address, can))
}

fn unknown(address: &str, can: &str) -> Error {
    Error::invalid(format!("backups can't lie at {address}: this build takes {can}"))
}
