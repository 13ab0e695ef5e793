//! Object storage as backup storage: S3 and compatible services, or any other backend of the crate
//! `object_store`.
//!
//! An object appears complete when its upload ends. Parts of an upload that a crash interrupted
//! stay in the bucket, hidden from listings: a lifecycle rule of the bucket
//! (`AbortIncompleteMultipartUpload`) removes them.
//!
//! The library's futures run on an own thread, so calls may come from anywhere, even from within
//! another runtime.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use bytes::Bytes;
use firn_kv::{Error, ErrorKind, Result};
use futures_util::StreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, WriteMultipart};
use tokio::runtime::{Builder, Runtime};

use crate::storage::{BackupStorage, StorageFile, StoredFile};

/// Bytes of an upload part: S3 accepts at most 10,000 parts, 78 GiB.
const UPLOAD_PART: usize = 8 << 20;
/// Concurrent uploads of parts.
const UPLOADS: usize = 4;

/// A prefix in an object store.
pub struct ObjectStorage {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    address: String,
    /// `None` only during drop.
    runtime: Option<Runtime>,
}

impl fmt::Debug for ObjectStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObjectPlace").field(&self.address).finish()
    }
}

impl ObjectStorage {
    /// Uses the objects of `store` whose names begin with `prefix` and a slash. `address` is the
    /// name for messages.
    ///
    /// # Errors
    /// `Exhausted` if no thread can be started.
    #[doc(hidden)]
    pub fn new(store: Arc<dyn ObjectStore>, prefix: &str, address: &str) -> Result<ObjectStorage> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime =
            runtime.map_err(|e| Error::io("start the thread for object storage", address, e))?;
        Ok(ObjectStorage {
            store,
            prefix: prefix.trim_matches('/').to_owned(),
            address: address.to_owned(),
            runtime: Some(runtime),
        })
    }

    /// Opens `s3://bucket/prefix`. Keys, region and endpoint come from the environment:
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT`, and
    /// `AWS_ALLOW_HTTP=true` for an endpoint without TLS.
    ///
    /// # Errors
    /// `InvalidArgument` for an address without a bucket, and for invalid settings.
    pub fn s3(address: &str) -> Result<ObjectStorage> {
        let path = address.strip_prefix("s3://").unwrap_or(address);
        let (bucket, prefix) = path.split_once('/').unwrap_or((path, ""));
        if bucket.is_empty() {
            return Err(Error::invalid(format!("{address} names no bucket: s3://bucket/prefix")));
        }
        // An error means that a provider is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = AmazonS3Builder::from_env().with_bucket_name(bucket).build().map_err(|e| {
            let words = format!("the settings of S3 do not fit: {e}; see `firn backup --help`");
            Error::invalid(words).in_file(address)
        })?;
        ObjectStorage::new(Arc::new(store), prefix, address)
    }

    fn path(&self, name: &str) -> Path {
        Path::from(format!("{}/{name}", self.prefix))
    }

    /// Runs a future on the thread and waits for it.
    fn wait<T: Send + 'static>(
        &self,
        doing: &str,
        name: &str,
        work: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (done, outcome) = sync_channel(1);
        if let Some(runtime) = &self.runtime {
            runtime.spawn(async move { done.send(work.await) });
        }
        // The thread ends, and drops the channel, only together with this value.
        let ended = || Error::new(ErrorKind::Closed, "the thread for object storage has ended");
        outcome.recv().map_err(|_| ended())?.map_err(|e| {
            let kind = match e {
                object_store::Error::NotFound { .. } => ErrorKind::NotFound,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot {doing}: {e}"))
                .in_file(format!("{}/{name}", self.address.trim_end_matches('/')))
        })
    }
}

impl Drop for ObjectStorage {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl BackupStorage for ObjectStorage {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn is_empty(&self) -> Result<bool> {
        let (store, prefix) = (self.store.clone(), Path::from(self.prefix.as_str()));
        let first = async move { store.list(Some(&prefix)).next().await.transpose() };
        Ok(self.wait("list", "", first)?.is_none())
    }

    fn list(&self, folder: &str) -> Result<Vec<StoredFile>> {
        let (store, path) = (self.store.clone(), self.path(folder));
        let all = async move {
            let mut files = vec![];
            let mut listed = store.list(Some(&path));
            while let Some(object) = listed.next().await.transpose()? {
                if let Some(name) = object.location.filename() {
                    files.push(StoredFile { name: name.to_owned(), size: object.size });
                }
            }
            Ok(files)
        };
        let mut files = self.wait("list", folder, all)?;
        files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    fn size(&self, name: &str) -> Result<u64> {
        let (store, path) = (self.store.clone(), self.path(name));
        self.wait("look at", name, async move { Ok(store.head(&path).await?.size) })
    }

    fn read(&self, name: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        if len == 0 {
            return Ok(vec![]);
        }
        let (store, path) = (self.store.clone(), self.path(name));
        let range = offset..offset.saturating_add(len as u64);
        let read = async move { store.get_range(&path, range).await };
        let bytes = self.wait("read", name, read)?;
        if bytes.len() != len {
            let words = format!("the object ends before byte {}", offset + len as u64);
            return Err(Error::corruption(words).in_file(name));
        }
        Ok(bytes.into())
    }

    fn create(&self, name: &str) -> Result<Box<dyn StorageFile + '_>> {
        let name = name.to_owned();
        Ok(Box::new(ObjectFile { place: self, name, held: vec![], upload: None }))
    }

    fn remove(&self, names: &[String]) -> Result<()> {
        let paths: Vec<_> = names.iter().map(|n| Ok(self.path(n))).collect();
        let store = self.store.clone();
        let removed = async move {
            let mut gone = store.delete_stream(futures_util::stream::iter(paths).boxed());
            while let Some(one) = gone.next().await {
                match one {
                    Err(object_store::Error::NotFound { .. }) => {}
                    other => drop(other?),
                }
            }
            Ok(())
        };
        self.wait("remove", names.first().map_or("", String::as_str), removed)
    }
}

/// An object being uploaded: at once if small, otherwise in parts.
struct ObjectFile<'a> {
    place: &'a ObjectStorage,
    name: String,
    held: Vec<u8>,
    upload: Option<WriteMultipart>,
}

impl ObjectFile<'_> {
    /// Uploads the buffered bytes.
    fn send(&mut self) -> Result<()> {
        let (store, path) = (self.place.store.clone(), self.place.path(&self.name));
        let (upload, part) = (self.upload.take(), Bytes::from(std::mem::take(&mut self.held)));
        let sent = async move {
            let mut upload = match upload {
                Some(upload) => upload,
                None => {
                    let begun = store.put_multipart(&path).await?;
                    WriteMultipart::new_with_chunk_size(begun, UPLOAD_PART)
                }
            };
            upload.put(part);
            match upload.wait_for_capacity(UPLOADS).await {
                Ok(()) => Ok(upload),
                Err(e) => {
                    // The first error is more useful than that of the cleanup.
                    let _ = upload.abort().await;
                    Err(e)
                }
            }
        };
        self.upload = Some(self.place.wait("upload", &self.name, sent)?);
        Ok(())
    }
}

impl StorageFile for ObjectFile<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.held.extend_from_slice(bytes);
        if self.held.len() >= UPLOAD_PART { self.send() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let (store, path) = (self.place.store.clone(), self.place.path(&self.name));
        if self.upload.is_some() && !self.held.is_empty() {
            self.send()?;
        }
        let (upload, whole) = (self.upload.take(), std::mem::take(&mut self.held));
        let done = async move {
            match upload {
                Some(upload) => drop(upload.finish().await?),
                None => drop(store.put(&path, whole.into()).await?),
            }
            Ok(())
        };
        self.place.wait("upload", &self.name, done)
    }
}

impl Drop for ObjectFile<'_> {
    fn drop(&mut self) {
        if let Some(upload) = self.upload.take() {
            // If this fails, the lifecycle rule of the bucket removes the parts.
            let _ = self.place.wait("give up", &self.name, async move { upload.abort().await });
        }
    }
}
