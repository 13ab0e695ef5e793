//! The settings of a `storage-conf.xml` besides its keyspaces (model 2.9).

use firn_kv::Durability;
use firn_wide::{Options, Result};
use roxmltree::Node;

use super::reader::{ConfReader, text_of};

/// Settings of a `storage-conf.xml`; missing ones have the values of 0.4's own file.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfSettings {
    /// `ClusterName`.
    pub cluster_name: String,
    /// `Partitioner`, as written: a class name.
    pub partitioner: Option<String>,
    /// `InitialToken`.
    pub initial_token: Option<String>,
    /// `ReplicationFactor`, for keyspaces without their own.
    pub replication_factor: u32,
    /// `CommitLogDirectory`.
    pub commit_log_directory: Option<String>,
    /// `DataFileDirectories`.
    pub data_file_directories: Vec<String>,
    /// `RpcTimeoutInMillis`.
    pub rpc_timeout_ms: u64,
    /// `ThriftAddress`.
    pub thrift_address: Option<String>,
    /// `ThriftPort`.
    pub thrift_port: u16,
    /// `ThriftFramedTransport`.
    pub thrift_framed_transport: bool,
    /// `ColumnIndexSizeInKB`.
    pub column_index_size_kb: u32,
    /// `MemtableSizeInMB` (0.6: `MemtableThroughputInMB`).
    pub memtable_size_mb: u32,
    /// `MemtableObjectCountInMillions` (0.6: `MemtableOperationsInMillions`).
    pub memtable_object_count_millions: f64,
    /// `CommitLogSync` with its period or window.
    pub commit_log_sync: CommitLogSync,
    /// `GCGraceSeconds`, for all column families.
    pub gc_grace_seconds: i32,
}

/// The time at which a write is durable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CommitLogSync {
    /// Some time after it was acknowledged.
    Periodic {
        /// `CommitLogSyncPeriodInMS`.
        period_ms: u64,
    },
    /// Before it is acknowledged.
    Batch {
        /// `CommitLogSyncBatchWindowInMS`.
        window_ms: f64,
    },
}

impl Default for ConfSettings {
    fn default() -> ConfSettings {
        ConfSettings {
            cluster_name: "Test Cluster".into(),
            partitioner: None,
            initial_token: None,
            replication_factor: 1,
            commit_log_directory: None,
            data_file_directories: Vec::new(),
            rpc_timeout_ms: 5000,
            thrift_address: None,
            thrift_port: 9160,
            thrift_framed_transport: false,
            column_index_size_kb: 64,
            memtable_size_mb: 64,
            memtable_object_count_millions: 0.1,
            commit_log_sync: CommitLogSync::Periodic { period_ms: 1000 },
            gc_grace_seconds: 864_000,
        }
    }
}

/// Elements of 0.4's and 0.6's files without effect on one node of Firn.
const WITHOUT_EFFECT: [&str; 32] = [
    "Authenticator",
    "AutoBootstrap",
    "BinaryMemtableSizeInMB",
    "BootstrapFileDirectory",
    "CalloutLocation",
    "CommitLogFastSync",
    "CommitLogRotationThresholdInMB",
    "ConcurrentReads",
    "ConcurrentWrites",
    "ControlPort",
    "DiskAccessMode",
    "DoConsistencyChecksBoolean",
    "EndPointSnitch",
    "FlushDataBufferSizeInMB",
    "FlushIndexBufferSizeInMB",
    "HintedHandoffEnabled",
    "IndexInterval",
    "JobJarFileLocation",
    "JobTrackerHost",
    "ListenAddress",
    "MemtableFlushAfterMinutes",
    "MemtableLifetimeInDays",
    "PhiConvictThreshold",
    "RackAware",
    "ReplicaPlacementStrategy",
    "RowWarningThresholdInMB",
    "SavedCachesDirectory",
    "Seeds",
    "SlicedBufferSizeInKB",
    "SnapshotBeforeCompaction",
    "StagingFileDirectory",
    "StoragePort",
];

/// The parts of `CommitLogSync`, in any order.
#[derive(Default)]
pub(super) struct Sync {
    batch: bool,
    period_ms: Option<u64>,
    window_ms: Option<f64>,
}

impl ConfSettings {
    /// Reads one element of `Storage`.
    pub(super) fn read(
        &mut self,
        reader: &mut ConfReader<'_>,
        sync: &mut Sync,
        node: Node<'_, '_>,
    ) -> Result<()> {
        match node.tag_name().name() {
            "ClusterName" => self.cluster_name = text_of(node),
            "Partitioner" => self.partitioner = some_text(node),
            "InitialToken" => self.initial_token = some_text(node),
            "ReplicationFactor" => self.replication_factor = reader.number(node, 1..=u32::MAX)?,
            "CommitLogDirectory" => self.commit_log_directory = some_text(node),
            "DataFileDirectories" => {
                let directories = node.children().filter(|n| n.has_tag_name("DataFileDirectory"));
                self.data_file_directories = directories.filter_map(some_text).collect();
            }
            "RpcTimeoutInMillis" => self.rpc_timeout_ms = reader.number(node, 0..=u64::MAX)?,
            "ThriftAddress" => self.thrift_address = some_text(node),
            "ThriftPort" => self.thrift_port = reader.number(node, 1..=u16::MAX)?,
            "ThriftFramedTransport" => {
                self.thrift_framed_transport = text_of(node).eq_ignore_ascii_case("true")
            }
            "ColumnIndexSizeInKB" => {
                self.column_index_size_kb = reader.number(node, 1..=u32::MAX)?
            }
            "MemtableSizeInMB" | "MemtableThroughputInMB" => {
                self.memtable_size_mb = reader.number(node, 1..=1 << 20)?
            }
            "MemtableObjectCountInMillions" | "MemtableOperationsInMillions" => {
                self.memtable_object_count_millions = reader.number(node, 1e-6..=1e9)?;
            }
            "GCGraceSeconds" => self.gc_grace_seconds = reader.number(node, 0..=i32::MAX)?,
            "CommitLogSync" => match text_of(node).to_ascii_lowercase().as_str() {
                "batch" => sync.batch = true,
                "periodic" => sync.batch = false,
                other => {
                    return Err(reader.error(
                        node,
                        format_args!("CommitLogSync is periodic or batch, not {other:?}"),
                    ));
                }
            },
            "CommitLogSyncPeriodInMS" => sync.period_ms = Some(reader.number(node, 1..=u64::MAX)?),
            "CommitLogSyncBatchWindowInMS" => {
                sync.window_ms = Some(reader.number(node, 0.0..=1e9)?)
            }
            name if WITHOUT_EFFECT.contains(&name) => {
                reader.note(node, format!("{name} has no effect on one node of Firn"))
            }
            name => reader.note(node, format!("{name} is not known")),
        }
        Ok(())
    }

    /// Applies the settings of the commit log.
    pub(super) fn finish(&mut self, sync: &Sync) {
        self.commit_log_sync = match sync.batch {
            true => CommitLogSync::Batch { window_ms: sync.window_ms.unwrap_or(0.1) },
            false => CommitLogSync::Periodic { period_ms: sync.period_ms.unwrap_or(1000) },
        };
    }

    /// Returns these options with the configured partitioner, cluster name, `CommitLogSync` and
    /// `MemtableSizeInMB`.
    ///
    /// ```
    /// use firn_wide::{Options, Wide};
    /// use firn_wide_text::storage_conf::StorageConf;
    /// # let dir = std::env::temp_dir().join(format!("firn-doc-wide-conf-{}", std::process::id()));
    /// let text = "<Storage>
    ///     <ClusterName>Blogs</ClusterName>
    ///     <Partitioner>org.apache.cassandra.dht.RandomPartitioner</Partitioner>
    ///     <Keyspaces><Keyspace Name='BloggyAppy'><ColumnFamily CompareWith='BytesType' Name='Authors'/></Keyspace></Keyspaces>
    /// </Storage>";
    /// let options = Options::default();
    /// let conf = StorageConf::parse(text, &options.registry)?;
    /// let wide = Wide::open_with(&dir, conf.settings.options(options))?;
    /// assert_eq!(wide.describe_cluster_name(), "Blogs");
    /// assert_eq!(wide.describe_partitioner(), "org.apache.cassandra.dht.RandomPartitioner");
    /// # std::fs::remove_dir_all(dir).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn options(&self, options: Options) -> Options {
        Options {
            partitioner: self.partitioner.clone().or(options.partitioner),
            cluster_name: Some(self.cluster_name.clone()),
            durability: self.durability(),
            memtable_size: Some(self.memtable_bytes()),
            ..options
        }
    }

    /// Returns the durability of an acknowledged write.
    pub fn durability(&self) -> Durability {
        match self.commit_log_sync {
            CommitLogSync::Periodic { .. } => Durability::Process,
            CommitLogSync::Batch { .. } => Durability::Power,
        }
    }

    /// Returns the size of a memtable in bytes, at most 2 GiB.
    pub fn memtable_bytes(&self) -> usize {
        (self.memtable_size_mb.min(2048) as usize) << 20
    }
}

fn some_text(node: Node<'_, '_>) -> Option<String> {
    Some(text_of(node)).filter(|t| !t.is_empty())
}
