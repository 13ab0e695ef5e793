//! What a target would make of a table's sizes.

use firn_cql::internals::catalog::TableSchema;

use super::finding::{CheckFinding, FigureUnit, beyond};
use super::sizes::{TableSizes, full_name, shown_key};
use super::target::TargetTable;

const SPLIT: &str = "put a part of the clustering, or a bucket of time or of a hash, into the partition key, so that partitions stay small";
const APART: &str =
    "keep such values elsewhere and their place here, or cut them over several rows";
const AS_ROWS: &str = "make a row of each element, in a table with a clustering column for it";
const FEWER: &str = "delete ranges or whole partitions instead of cells, write no nulls, and let time to live end whole partitions; or compact the \
                     store with `firn compact` when their grace is over";

const LIVES_SHORTER: &str = "write it with a shorter time to live, or set storage_compatibility_mode: NONE where the target is 5.0 and has no older nodes";

/// Judges a time to live, in seconds, of what is written now.
pub fn judge_ttl(target: &TargetTable, now: u64, ttl: u64, place: &str) -> Option<CheckFinding> {
    let until = Some(ttl).filter(|ttl| *ttl > 0)?.saturating_add(now);
    let (gravity, figure) = beyond(target.last_expiry, FigureUnit::Second, until)?;
    let what = "what is written with this time to live would expire";
    let mut finding = CheckFinding::new(gravity, "time-to-live", place, what, LIVES_SHORTER);
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
        (t.cell_bytes, FigureUnit::Bytes, "its largest value, a collection being one", APART),
        (t.collection_elements, FigureUnit::Things, "elements of a collection", AS_ROWS),
        (
            t.key_bytes,
            FigureUnit::Bytes,
            "its longest partition key",
            "shorten the key: its hash as the key, and itself in a column",
        ),
        (t.last_expiry, FigureUnit::Second, "what expires last", LIVES_SHORTER),
    ];
    let mut all = vec![];
    for ((name, greatest), (bound, unit, what, next)) in sizes.measures().into_iter().zip(measures)
    {
        let Some((gravity, figure)) = beyond(bound, unit, greatest.figure) else { continue };
        let what = match &greatest.column {
            Some(column) => format!("{what}, in the column {column}"),
            None => what.to_owned(),
        };
        let mut finding = CheckFinding::new(gravity, name, full_name(table), what, next);
        finding.figure = Some(figure);
        finding.at = Some(shown_key(table, &greatest.key));
        all.push(finding);
    }
    all
}

#[cfg(test)]
mod tests {
    use firn_cql::Session;

    use super::super::finding::FindingGravity;
    use super::super::target::CheckTarget;
    use super::*;

    #[test]
    fn a_figure_beyond_a_bound_is_told_with_its_key() {
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
        let told = |target: CheckTarget| {
            let found = judge(target.table(), table, &sizes);
            let one = |f: CheckFinding| (f.gravity, f.rule, f.at.unwrap_or_default(), f.place);
            found.into_iter().map(one).collect::<Vec<_>>()
        };
        let (at, place) = ("a = 7 AND b = 'x'".to_owned(), "k.\"T\"".to_owned());
        let five = [
            (FindingGravity::Badly, "partition_bytes", at.clone(), place.clone()),
            (FindingGravity::Refused, "partition_tombstones", at, place),
        ];
        assert_eq!(told(CheckTarget::Cassandra5), five);
        let rules: Vec<_> = told(CheckTarget::Scylla).into_iter().map(|f| (f.0, f.1)).collect();
        assert_eq!(
            rules,
            [(FindingGravity::Badly, "row_bytes"), (FindingGravity::Refused, "key_bytes")]
        );
    }
}
