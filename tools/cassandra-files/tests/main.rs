//! Files of real nodes, compared with the node's own `sstabledump` output: each partition, row,
//! bound and cell, with all times. The tests of `sstable-dump` compare values, where types are
//! known.
#![allow(clippy::disallowed_methods, reason = "files of tests")]

use std::fs;
use std::path::{Path, PathBuf};

use firn_cassandra::{
    FileVersion, MarshalClass, NodeCellState, NodeDeletion, NodeEvent, NodeExpiry, NodeFaultKind,
    NodeFiles, NodeFolder, NodeHeader, NodeMarker, NodeRow, NodeTable,
};
use serde_json::{Map, Value, json};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn tables() -> Vec<PathBuf> {
    let sorted = |dir: &Path| {
        let mut all: Vec<_> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
        all.sort();
        all
    };
    let folders = sorted(&data()).into_iter().flat_map(|version| sorted(&version));
    let files = folders.flat_map(|folder| sorted(&folder));
    files.filter(|f| NodeFolder::is_data(f)).collect()
}

fn deletion(d: NodeDeletion) -> Value {
    json!({"marked_deleted": d.timestamp.to_string(), "local_delete_time": d.local.to_string()})
}

fn put_expiry(object: &mut Map<String, Value>, e: NodeExpiry) {
    object.insert("ttl".into(), e.ttl.into());
    object.insert("expires_at".into(), e.expires.to_string().into());
}

fn row(header: &NodeHeader, r: &NodeRow) -> Value {
    let mut out = Map::new();
    out.insert("type".into(), if r.is_static { "static_block" } else { "row" }.into());
    if let Some(l) = r.liveness {
        let mut info = Map::new();
        info.insert("tstamp".into(), l.timestamp.to_string().into());
        if let Some(e) = l.expiry {
            put_expiry(&mut info, e);
        }
        out.insert("liveness_info".into(), info.into());
    }
    if let Some(d) = r.deletion {
        out.insert("deletion_info".into(), deletion(d));
    }
    let mut cells = vec![];
    for c in &r.columns {
        let name = String::from_utf8(header.columns(r.is_static)[c.column].name.clone()).unwrap();
        if let Some(d) = c.deletion {
            cells.push(json!({"name": name, "deletion_info": deletion(d)}));
        }
        for cell in &c.cells {
            let mut out = Map::new();
            out.insert("name".into(), name.clone().into());
            let expiry = match &cell.state {
                NodeCellState::Deleted(at) => {
                    let at = at.to_string();
                    out.insert("deletion_info".into(), json!({"local_delete_time": at}));
                    None
                }
                NodeCellState::Live(_) => None,
                NodeCellState::Expiring(_, e) => Some(*e),
            };
            if r.liveness.is_none_or(|l| l.timestamp != cell.timestamp) {
                out.insert("tstamp".into(), cell.timestamp.to_string().into());
            }
            let of_row = r.liveness.and_then(|l| l.expiry).map(|e| e.ttl);
            if let Some(e) = expiry.filter(|e| of_row != Some(e.ttl)) {
                put_expiry(&mut out, e);
            }
            cells.push(out.into());
        }
    }
    out.insert("cells".into(), cells.into());
    out.into()
}

fn marker(m: &NodeMarker) -> Value {
    let side = |side: &Option<(firn_cassandra::NodeBound, NodeDeletion)>| {
        let (bound, d) = side.as_ref()?;
        let kind = if bound.inclusive { "inclusive" } else { "exclusive" };
        Some(json!({"type": kind, "deletion_info": deletion(*d)}))
    };
    let mut out = Map::new();
    let both = m.open.is_some() && m.close.is_some();
    let kind = if both { "range_tombstone_boundary" } else { "range_tombstone_bound" };
    out.insert("type".into(), kind.into());
    for (name, side) in [("start", side(&m.open)), ("end", side(&m.close))] {
        if let Some(side) = side {
            out.insert(name.into(), side);
        }
    }
    out.into()
}

/// Removes parts of the node's output that need types, clocks or positions.
fn strip(v: &mut Value) {
    match v {
        Value::Object(o) => {
            for k in ["position", "clustering", "path", "value", "expired", "table kind", "key"] {
                o.remove(k);
            }
            o.values_mut().for_each(strip);
        }
        Value::Array(a) => a.iter_mut().for_each(strip),
        _ => {}
    }
}

#[test]
fn each_time_is_the_one_that_the_nodes_own_tool_prints() {
    let (mut files, mut cells) = (0, 0);
    for file in tables() {
        let folder = NodeFolder::of(&file).unwrap();
        let table = NodeTable::open(&folder).unwrap();
        let mut reader = table.read(&folder).unwrap();
        let mut found: Vec<Value> = vec![];
        let mut last = 0;
        while let Some(event) = reader.advance().unwrap() {
            let (position, member) = match event {
                NodeEvent::Partition(p) => {
                    let mut partition = Map::new();
                    if let Some(d) = p.deletion {
                        partition.insert("deletion_info".into(), deletion(d));
                    }
                    found.push(json!({"partition": partition, "rows": []}));
                    (p.position, None)
                }
                NodeEvent::Row(r) => {
                    cells += r.columns.iter().map(|c| c.cells.len()).sum::<usize>();
                    (r.position, Some(row(&table.header, &r)))
                }
                NodeEvent::Marker(m) => (m.position, Some(marker(&m))),
            };
            assert!(position >= last && position < reader.data_length());
            last = position;
            if let Some(member) = member {
                found.last_mut().unwrap()["rows"].as_array_mut().unwrap().push(member);
            }
        }
        assert_eq!(reader.position(), reader.data_length());
        let said = fs::read_to_string(file.with_extension("jsonl")).unwrap();
        let mut said: Vec<Value> = said.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        said.iter_mut().for_each(strip);
        assert_eq!(found.len(), said.len(), "{}", file.display());
        for (f, s) in found.iter().zip(&said) {
            assert_eq!(f, s, "{}", file.display());
        }
        files += 1;
    }
    assert!((files, cells) == (17, 389), "{files} files, {cells} cells");
}

#[test]
fn types_are_in_the_files() {
    let folder = NodeFolder::of(&data().join("nb/ranges/nb-1-big-Data.db")).unwrap();
    let header = NodeTable::open(&folder).unwrap().header;
    assert_eq!(header.partitioner, "org.apache.cassandra.dht.Murmur3Partitioner");
    assert_eq!(header.key.to_string(), "CompositeType(Int32Type,UTF8Type)");
    let clustering: Vec<String> = header.clustering.iter().map(MarshalClass::to_string).collect();
    assert_eq!(clustering, ["Int32Type", "ReversedType(UTF8Type)", "TimestampType"]);
    assert_eq!(header.statics[0].name, b"s");
    let names: Vec<&[u8]> = header.regulars.iter().map(|c| &*c.name).collect();
    assert_eq!(names, [b"v", b"w"]);
}

#[test]
fn what_is_not_read_is_said() {
    for name in ["a.db", "nb-1-big", "zz-1-tri-Data.db", "nb-1-bti-Data.db", "da-1-big-Data.db"] {
        assert_eq!(NodeFolder::of(name.as_ref()).unwrap_err().kind(), NodeFaultKind::Unsupported);
    }
    let old = NodeFolder::of("la-1-big-Data.db".as_ref()).unwrap();
    let said = NodeTable::open(&old).unwrap_err().to_string();
    assert!(said.starts_with("la-1-big-Data.db: version la is not read: ma to me"), "{said}");
    assert!(
        said.ends_with(
            "of Cassandra 2.2: `sstableupgrade` of Cassandra 3.0 or 3.11 writes it anew"
        )
    );
    let scylla = NodeFolder::of("ms-1-big-Data.db".as_ref()).unwrap();
    assert!(NodeTable::open(&scylla).unwrap_err().to_string().contains("of a newer ScyllaDB"));
    let older = NodeFolder::of("ks-table1-ka-1-Data.db".as_ref()).unwrap_err().to_string();
    assert!(older.contains("Cassandra 2.1 or older (version ka): `sstableupgrade`"), "{older}");
    assert!(FileVersion::parse("me").is_some() && FileVersion::parse("me2").is_none());
    let none = NodeFolder::of(&data().join("nb-1-big-Data.db")).unwrap();
    let missing = NodeTable::open(&none).unwrap_err();
    assert_eq!(missing.kind(), NodeFaultKind::Missing);
    assert_eq!(missing.file(), none.path("Statistics.db"));
}
