//! Firn's compaction policies on simulated tables: predicts bytes written, space, stalls of writers
//! and the cost of reads, without a store. A program can use everything that the command
//! `compaction-sim` does.
//!
//! A simulation has these parts:
//!
//! | part | type |
//! |---|---|
//! | policy | a [`Policy`](firn_kv::Policy) of the engine, parsed from its [name](policy), your own [`CompactionPolicy`](firn_kv::policy::CompactionPolicy), or a [script](policy::script) |
//! | workload | a [`SimWorkload`](workload::SimWorkload): phases of puts and deletes over a domain of keys; by name ([`WorkloadName`](workload::WorkloadName)), from a [trace](workload::trace), or from a store's event log ([`history`]) |
//! | machine | a [`Machine`](model::machine::Machine): bandwidths, cores, threads, the rate of the writers; and optionally an [SSD](model::ssd) with its wear |
//! | simulation | a [`Setup`](model::sim::Setup) of these, which [`run`](model::sim::run) executes: with numbers per table, or with [`Setup::exact`](model::sim::Setup::exact) key by key |
//! | outcome | a [`SimOutcome`](model::meter::SimOutcome), and the list of its [`METRICS`](report::metric::METRICS) |
//!
//! The engine's own code decides the order of compactions, the slowdown of writers and the versions
//! that a compaction retains. A simple model gives the times. Equal setups give equal outcomes.
//!
//! ```
//! use compaction_sim::model::machine::Machine;
//! use compaction_sim::report::metric::METRICS;
//! use compaction_sim::model::sim::{Setup, run};
//! use compaction_sim::model::size::ContentSize;
//! use compaction_sim::workload::SimWorkload;
//! use firn_kv::TreeOptions;
//!
//! // 100,000 writes of 16 + 100 bytes to 20,000 keys, with Zipfian popularity.
//! let content = ContentSize::default();
//! let workload = SimWorkload::of(&"zipfian:0.9".parse()?, 100_000, 20_000, content);
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
//! `examples/compare.rs` runs a custom workload under several policies, `examples/custom_policy.rs`
//! a custom policy. Hidden modules serve the commands and are not stable.

#[doc(hidden)]
pub mod advise;
#[doc(hidden)]
pub mod cli;
pub mod history;
pub mod model;
pub mod policy;
pub mod policy_bench;
pub mod report;
#[doc(hidden)]
pub mod reproduce;
#[doc(hidden)]
pub mod validate;
pub mod workload;

/// Runs the example of the page as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct SimulatorReadme;
