//! Store of the benchmarks, its tables, and helpers for all parts.

use std::path::Path;

use firn_cql::{Prepared, RunOptions, Session};
use firn_tools::output::{Done, Failure};
use firn_wide::{CfDef, Keyspace, KsDef};

use crate::bench::args::ModelBenchArgs;
use firn_bench::duel::scattered;

/// Rows of a page of a scan.
pub const PAGE: usize = 1000;

/// Keyspace of the tables, and keyspace of the compared family.
pub const KEYSPACE: &str = "bench";
pub const BESIDE: &str = "beside";

pub fn refused(e: impl std::fmt::Display) -> Failure {
    Failure::new(e.to_string())
}

pub struct CqlBench {
    pub rows: u64,
    pub session: Session,
    pub keyspace: Keyspace,
}

/// Returns a pseudorandom number below `below`.
pub fn any(n: u64, below: u64) -> u64 {
    scattered(n) % below.max(1)
}

impl CqlBench {
    pub fn open(dir: &Path, args: &ModelBenchArgs) -> Done<CqlBench> {
        let wide = args.open_wide(dir, args.engine.budget())?;
        let keyspace = KsDef { cf_defs: vec![CfDef::new(BESIDE, "Rows")], ..KsDef::new(BESIDE) };
        wide.system_add_keyspace(&keyspace).map_err(refused)?;
        let keyspace = wide.keyspace(BESIDE).map_err(refused)?;
        let session = Session::new(wide).map_err(refused)?;
        for definition in [
            "CREATE KEYSPACE bench WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE bench.rows (id bigint PRIMARY KEY, a text, b text, n int)",
            "CREATE TABLE bench.sets (id int PRIMARY KEY, v set<int>)",
            "CREATE TABLE bench.lists (id int PRIMARY KEY, v list<int>)",
        ] {
            session.execute(definition, ()).map_err(refused)?;
        }
        Ok(CqlBench { rows: args.rows, session, keyspace })
    }

    pub fn prepare(&self, statement: &str) -> Done<Prepared> {
        self.session.prepare(statement).map_err(refused)
    }

    /// Reads all pages of a statement, which must have this many rows in total.
    pub fn pages(&self, statement: &Prepared, rows: u64) -> Done {
        let (mut how, mut found) =
            (RunOptions { page_size: Some(PAGE), ..RunOptions::default() }, 0);
        loop {
            let page = self.session.run(statement, (), &how).map_err(refused)?;
            found += page.len() as u64;
            how.paging = page.paging().cloned();
            if how.paging.is_none() {
                return expect("rows of a scan", found, rows);
            }
        }
    }

    pub fn compact(&self) -> Done {
        let db = self.session.engine().store().db();
        for name in db.tree_names() {
            db.existing_tree(&name)?.compact()?;
        }
        Ok(db.wait_idle()?)
    }
}

/// Fails if the result differs from the expected one.
pub fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Done {
    if found == expected {
        return Ok(());
    }
    Err(Failure::new(format!("{what}: found {found:?}, and not {expected:?}")))
}
