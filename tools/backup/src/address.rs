//! Addresses of repositories as users write them.

use std::sync::Arc;

use firn_kv::{Env, Error, Result};

use crate::folder::FolderStorage;
use crate::storage::BackupStorage;

/// Opens an address: a directory of `env`, or `s3://bucket/prefix` with the feature `s3`. Reads
/// nothing yet.
///
/// # Errors
/// `InvalidArgument` for an empty or unsupported address; errors of the S3 settings.
pub fn open_storage(env: &Arc<dyn Env>, address: &str) -> Result<Arc<dyn BackupStorage>> {
    // An empty path would be the current directory, whose contents the user did not mean.
    if address.is_empty() {
        return Err(Error::invalid("no repository of backups is named; name a directory"));
    }
    match address.split_once("://") {
        None => Ok(Arc::new(FolderStorage::new(env.clone(), address))),
        Some((scheme, _)) => other(scheme, address),
    }
}

#[cfg(feature = "s3")]
fn other(scheme: &str, address: &str) -> Result<Arc<dyn BackupStorage>> {
    match scheme {
        "s3" => Ok(Arc::new(crate::object::ObjectStorage::s3(address)?)),
        _ => Err(unknown(address, "a folder or s3://bucket/prefix")),
    }
}

#[cfg(not(feature = "s3"))]
fn other(scheme: &str, address: &str) -> Result<Arc<dyn BackupStorage>> {
    let can = match scheme {
        "s3" => "a folder; for S3, build with `--features s3`",
        _ => "a folder",
    };
    Err(unknown(address, can))
}

fn unknown(address: &str, can: &str) -> Error {
    Error::invalid(format!("backups can't be stored at {address}: this build takes {can}"))
}
