//! Firn's compaction policies on virtual tables: how many bytes a store would write, how much space
//! it would take, how long its writers would wait and what its reads would meet, without the store.
//! Everything that the command `compaction-sim` does can be done from a program.
//!
//! A simulation is made of these parts:
//!
//! | part | what it is |
//! |---|---|
//! | policy | a [`Policy`](firn_kv::Policy) of the engine, read from its [name](policy), a trait of one's own ([`SimPolicy`](idea::SimPolicy)), or a [script] |
//! | workload | a [`SimWorkload`](workload::SimWorkload): phases of puts and deletes over a domain of keys; by name ([`SimOpKind`](workload::SimOpKind)), of a [trace], or of a store's event log ([`history`]) |
//! | machine | a [`Machine`](machine::Machine): bandwidths, cores, threads, the rate of the writers; and an [SSD](ssd), if its wear is asked for |
//! | simulation | a [`Setup`](sim::Setup) of these, which [`run`](sim::run) brings to its end: in numbers for each table, or with [`Setup::exact`](sim::Setup::exact) key by key |
//! | outcome | a [`SimOutcome`](meter::SimOutcome), and the list of [`METRICS`](metric::METRICS) that is told of it |
//!
//! The order of merges, when writers are slowed and which versions a merge keeps are decided by the
//! engine's own code; time is that of a simple model. Equal setups give equal outcomes.
//!
//! ```
//! use compaction_sim::machine::Machine;
//! use compaction_sim::metric::METRICS;
//! use compaction_sim::sim::{Setup, run};
//! use compaction_sim::size::ContentSize;
//! use compaction_sim::workload::{SimOpKind, SimWorkload};
//! use firn_kv::TreeOptions;
//!
//! // 100,000 writes of 16 + 100 bytes, the popular ones of 20,000 keys the most often.
//! let content = ContentSize { key_len: 16, value_len: (100, 100), random: 0.5, sample: vec![] };
//! let workload = SimWorkload::of(SimOpKind::Zipfian(0.9), 100_000, 20_000, content);
//! let options = TreeOptions {
//!     policy: "leveled:8:base=1m".parse()?,
//!     memtable_size: 256 << 10,
//!     table_size: 256 << 10,
//!     ..TreeOptions::default()
//! };
//! let machine = Machine { ingest: 5e6, ..Machine::default() };
//! let outcome = run(&Setup::new(options, workload, machine), &mut |_| ())?;
//! assert!(outcome.write_amplification > 1.0 && outcome.max_runs > 1);
//! for metric in METRICS.iter().filter(|m| m.heading.is_some()) {
//!     println!("{}: {}", metric.words, metric.text(&outcome).unwrap_or_default());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `examples/compare.rs` is a workload of one's own under several policies, `examples/idea.rs` a
//! policy of one's own. Modules that are not listed here serve the commands and make no promises.

#[doc(hidden)]
pub mod advise;
#[doc(hidden)]
pub mod batch;
#[doc(hidden)]
pub mod blobs;
#[doc(hidden)]
pub mod candidates;
pub mod choice;
#[doc(hidden)]
pub mod cli;
#[doc(hidden)]
pub mod commands;
#[doc(hidden)]
pub mod course;
mod division;
mod drawn;
pub mod engine;
#[doc(hidden)]
pub mod exact;
mod figure;
pub mod filters;
pub mod history;
mod html;
pub mod idea;
pub mod latency;
pub mod machine;
pub mod meter;
pub mod metric;
mod paper;
mod plot;
pub mod policy;
#[doc(hidden)]
pub mod question;
mod recorded;
mod report;
#[doc(hidden)]
pub mod reproduce;
mod rocksdb_trace;
pub mod script;
pub mod sim;
pub mod size;
pub mod sketch;
pub mod ssd;
#[doc(hidden)]
pub mod store;
#[doc(hidden)]
pub mod summary;
mod tell;
pub mod trace;
#[doc(hidden)]
pub mod validate;
mod words;
pub mod workload;
