//! Judges the sizes of a table's data for a target.

use firn_cql::internals::catalog::TableSchema;
use firn_tools::output::things;

use super::finding::{CheckFinding, FigureUnit, FindingSeverity, beyond};
use super::sizes::{TableSizes, full_name, shown_key};
use super::target::TargetTable;

const SPLIT: &str = "put a part of the clustering, or a bucket of time or of a hash, into the partition key, so that partitions stay small";
const APART: &str =
    "store such values elsewhere with a reference here, or split them over several rows";
const AS_ROWS: &str = "make a row of each element, in a table with a clustering column for it";
const FEWER: &str = "delete ranges or whole partitions instead of cells, write no nulls, and let whole partitions expire; or compact the \
                     store with `firn compact` when their grace is over";

const LIVES_SHORTER: &str = "write it with a shorter time to live, or set storage_compatibility_mode: NONE where the target is 5.0 and has no older nodes";

/// Judges a time to live, in seconds, of data written now.
pub fn judge_ttl(target: &TargetTable, now: u64, ttl: u64, place: &str) -> Option<CheckFinding> {
    let until = Some(ttl).filter(|ttl| *ttl > 0)?.saturating_add(now);
    let (severity, figure) = beyond(target.last_expiry, FigureUnit::Second, until)?;
    let what = "data written with this time to live would expire";
    let mut finding = CheckFinding::new(severity, "time-to-live", place, what, LIVES_SHORTER);
    finding.figure = Some(figure);
    Some(finding)
}

/// Judges the sizes of a table.
pub fn judge(target: &TargetTable, table: &TableSchema, sizes: &TableSizes) -> Vec<CheckFinding> {
    let t = target;
    let measures = [
        (t.partition_bytes, FigureUnit::Bytes, "its largest partition", SPLIT),
        (t.partition_rows, FigureUnit::Things, "rows of a partition", SPLIT),
        (
            t.partition_tombstones,
            FigureUnit::Things,
            "tombstones that a read of a partition steps over",
            FEWER,
        ),
        (t.row_bytes, FigureUnit::Bytes, "its largest row", APART),
        (t.cell_bytes, FigureUnit::Bytes, "its largest value; a collection counts as one", APART),
        (t.collection_elements, FigureUnit::Things, "elements of a collection", AS_ROWS),
        (
            t.key_bytes,
            FigureUnit::Bytes,
            "its longest partition key",
            "shorten the key: use its hash as the key, and store the full key in a column",
        ),
        (t.last_expiry, FigureUnit::Second, "what expires last", LIVES_SHORTER),
    ];
    let mut all = vec![];
    for ((name, greatest), (bound, unit, what, next)) in sizes.measures().into_iter().zip(measures)
    {
        let Some((severity, figure)) = beyond(bound, unit, greatest.figure) else { continue };
        let what = match &greatest.column {
            Some(column) => format!("{what}, in the column {column}"),
            None => what.to_owned(),
        };
        let mut finding = CheckFinding::new(severity, name, full_name(table), what, next);
        finding.figure = Some(figure);
        finding.at = Some(shown_key(table, &greatest.key));
        all.push(finding);
    }
    let lists = [
        (
            &sizes.mixed_lists,
            FindingSeverity::Differs,
            "list-times",
            "expire at different times: `firn migrate` appends them one by one, which preserves their times to live, but not always their write times",
        ),
        (
            &sizes.whole_lists,
            FindingSeverity::Badly,
            "list-lives-longer",
            "expire at too many different times: `firn migrate` writes the list whole, and all elements get the longest time to live",
        ),
    ];
    for (found, severity, rule, what) in lists.into_iter().filter(|l| l.0.figure > 0) {
        let column =
            found.column.as_deref().map_or(String::new(), |c| format!(", as of the column {c},"));
        let lists = things(found.figure, "list", "lists");
        let what = format!("elements of {lists}{column} {what}");
        let mut finding = CheckFinding::new(severity, rule, full_name(table), what, AS_ROWS);
        finding.at = Some(shown_key(table, &found.key));
        all.push(finding);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use firn_cql::Session;

    use super::super::target::CheckTarget;
    use super::*;

    #[test]
    fn a_figure_beyond_a_bound_is_reported_with_its_key() {
        let session = Session::in_memory().unwrap();
        let keyspace = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        session.execute(keyspace, ()).unwrap();
        session.execute("CREATE TABLE k.\"T\" (a int, b text, PRIMARY KEY ((a, b)))", ()).unwrap();
        let catalog = session.engine().catalog();
        let table = catalog.keyspace("k").unwrap().table("T").unwrap();
        let mut sizes = TableSizes::default();
        let key = [&[0, 4, 0, 0, 0, 7, 0, 0, 1][..], b"x\0"].concat();
        sizes.partition_bytes.figure = (100 << 20) + 1;
        sizes.partition_bytes.key.clone_from(&key);
        sizes.partition_tombstones.figure = 100_001;
        sizes.partition_tombstones.key.clone_from(&key);
        sizes.key_bytes.figure = 65_534;
        sizes.row_bytes.figure = 1 << 40;
        let found = |target: CheckTarget| {
            let found = judge(target.table(), table, &sizes);
            let one = |f: CheckFinding| (f.severity, f.rule, f.at.unwrap_or_default(), f.place);
            found.into_iter().map(one).collect::<Vec<_>>()
        };
        let (at, place) = ("a = 7 AND b = 'x'".to_owned(), "k.\"T\"".to_owned());
        let five = [
            (FindingSeverity::Badly, "partition_bytes", at.clone(), place.clone()),
            (FindingSeverity::Refused, "partition_tombstones", at, place),
        ];
        assert_eq!(found(CheckTarget::Cassandra5), five);
        let rules: Vec<_> = found(CheckTarget::Scylla).into_iter().map(|f| (f.0, f.1)).collect();
        assert_eq!(
            rules,
            [(FindingSeverity::Badly, "row_bytes"), (FindingSeverity::Refused, "key_bytes")]
        );
    }

    #[test]
    fn lists_with_different_expiry_times_are_reported() {
        let session = Session::in_memory().unwrap();
        let keyspace = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        session.execute(keyspace, ()).unwrap();
        session
            .execute("CREATE TABLE k.t (p int PRIMARY KEY, l list<int>, s set<int>)", ())
            .unwrap();
        let add = |p: i32, ttl: i32, n: i32| {
            let cql = "UPDATE k.t USING TTL ? SET l = l + ?, s = s + ? WHERE p = ?";
            session.execute(cql, (ttl, vec![n], BTreeSet::from([n]), p)).unwrap();
        };
        (0..3).for_each(|n| add(1, 1000, n));
        let rules = || {
            let table =
                session.engine().catalog().keyspace("k").unwrap().table("t").unwrap().clone();
            let all =
                super::super::sizes::token_ranges(session.engine().partitioner(), None).unwrap();
            let sizes = super::super::sizes::measure(&session, &table, &all, &mut |_| ()).unwrap();
            let found = judge(CheckTarget::Cassandra5.table(), &table, &sizes);
            found.into_iter().map(|f| (f.rule, f.at.unwrap())).collect::<Vec<_>>()
        };
        let lives_apart = rules().iter().any(|f| f.0.starts_with("list"));
        assert!(!lives_apart);
        add(2, 0, 1);
        add(2, 1000, 2);
        assert_eq!(rules(), [("list-times", "p = 2".to_owned())]);
        (0..70).for_each(|n| add(2, 1000 * (n % 2), n));
        assert!(rules().contains(&("list-lives-longer", "p = 2".to_owned())));
    }
}
