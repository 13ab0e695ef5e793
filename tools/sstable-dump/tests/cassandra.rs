//! `sstable-dump cassandra` on files that real nodes wrote, compared with the output of their own
//! `sstabledump`.
#![allow(clippy::disallowed_methods)] // files under test are damaged directly

use super::support;

use std::fs;
use std::path::{Path, PathBuf};

use firn_cassandra::{
    HeaderColumn, LeastTimes, MarshalClass, NodeBound, NodeCell, NodeCellState, NodeColumn,
    NodeDeletion, NodeEvent, NodeExpiry, NodeFolder, NodeHeader, NodeMarker, NodePartition,
    NodeRow, NodeTableWriter, WriteOptions,
};
use serde_json::Value;
use support::{Room, arg, dump};

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cassandra-files/tests/data")
}

const TABLES: [&str; 15] = [
    "da/collections/da-1-bti",
    "da/ranges/da-1-bti",
    "da/ranges/da-2-bti",
    "me/collections/me-1-big",
    "nb/chunks/nb-1-big",
    "nb/collections/nb-1-big",
    "nb/counters/nb-1-big",
    "nb/keys/nb-1-big",
    "nb/many/nb-1-big",
    "nb/paths/nb-1-big",
    "nb/ranges/nb-1-big",
    "nb/ranges/nb-2-big",
    "nb/types/nb-1-big",
    "oa/ranges/oa-1-big",
    "oa/ranges/oa-2-big",
];

/// Removes known differences: positions, times of the clock, and fields that the tool prints for
/// all tables.
fn strip(v: &mut Value, counters: bool) {
    match v {
        Value::Object(o) => {
            for k in ["position", "expired", "table kind"] {
                o.remove(k);
            }
            // The node's tool prints the first bytes of the shards there.
            if counters && o.contains_key("value") {
                o.remove("value");
            }
            o.values_mut().for_each(|v| strip(v, counters));
        }
        Value::Array(a) => a.iter_mut().for_each(|v| strip(v, counters)),
        _ => {}
    }
}

#[test]
fn cell_by_cell_as_the_nodes_own_tool() {
    for table in TABLES {
        let file = data().join(format!("{table}-Data.db"));
        let (text, code) = dump(&["cassandra", &arg(&file), "--json", "--raw-times"]);
        assert_eq!(code, 0, "{table}: {text}");
        let mut found: Value = serde_json::from_str(&text).unwrap();
        let said = fs::read_to_string(file.with_extension("jsonl")).unwrap();
        let mut said: Vec<Value> = said.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let counters = table.contains("counters");
        strip(&mut found, counters);
        said.iter_mut().for_each(|v| strip(v, counters));
        let found = found.as_array().unwrap();
        assert_eq!(found.len(), said.len(), "{table}");
        for (f, s) in found.iter().zip(&said) {
            assert_eq!(f, s, "{table}");
        }
    }
}

/// Names that need quotes, a bound of a whole partition, and an overflowed end have the format of
/// the node's own tool.
#[test]
fn odd_names_bounds_and_ends_have_the_form_of_the_nodes_own_tool() {
    let room = Room::new("cassandra-odd");
    let class = |name: &str| MarshalClass::parse(name).unwrap();
    let int = |n: i32| n.to_be_bytes().to_vec();
    let column = |name: &str| HeaderColumn { name: name.into(), class: class("Int32Type") };
    let header = NodeHeader::new(
        "org.apache.cassandra.dht.Murmur3Partitioner".to_owned(),
        class("Int32Type"),
        vec![class("Int32Type")],
        vec![],
        vec![column("Quoted Col"), column("plain")],
        LeastTimes { second: -100, ..LeastTimes::default() },
    );
    let hash = |_: &[u8]| [0, 0];
    let options =
        WriteOptions { compressed: false, filter_chance: 0.01, index_interval: 128, hash };
    let files = NodeFolder::numbered(&room.path(""), 1);
    let mut writer = NodeTableWriter::create(files, header, options).unwrap();
    let deletion = NodeDeletion { timestamp: 5, local: 50 };
    let whole = NodeBound { clustering: vec![], inclusive: true };
    let bound = NodeBound { clustering: vec![Some(int(3))], inclusive: false };
    let expiry = NodeExpiry { ttl: 10, expires: -7 };
    let cell = |state| NodeCell { path: None, timestamp: 6, state };
    let columns = [NodeCellState::Live(int(7)), NodeCellState::Expiring(int(8), expiry)];
    let columns = columns.into_iter().enumerate().map(|(column, state)| NodeColumn {
        column,
        deletion: None,
        cells: vec![cell(state)],
    });
    for event in [
        NodeEvent::Partition(NodePartition { key: int(1), deletion: None, position: 0 }),
        NodeEvent::Marker(NodeMarker { close: None, open: Some((whole, deletion)), position: 0 }),
        NodeEvent::Marker(NodeMarker { close: Some((bound, deletion)), open: None, position: 0 }),
        NodeEvent::Row(NodeRow {
            is_static: false,
            clustering: vec![Some(int(4))],
            liveness: None,
            deletion: None,
            columns: columns.collect(),
            position: 0,
        }),
    ] {
        writer.event(&event).unwrap();
    }
    writer.finish().unwrap();
    let file = room.path("nb-1-big-Data.db");
    let (text, code) = dump(&["cassandra", &arg(&file), "--json", "--raw-times"]);
    assert_eq!(code, 0, "{text}");
    let found: Value = serde_json::from_str(&text).unwrap();
    let rows = &found[0]["rows"];
    let info = serde_json::json!({"marked_deleted": "5", "local_delete_time": "50"});
    assert_eq!(rows[0]["start"], serde_json::json!({"type": "inclusive", "deletion_info": info}));
    assert_eq!(
        rows[1]["end"],
        serde_json::json!({"type": "exclusive", "clustering": [3], "deletion_info": info})
    );
    let cells = &rows[2]["cells"];
    assert_eq!([&cells[0]["name"], &cells[1]["name"]], ["\"Quoted Col\"", "plain"]);
    assert_eq!(
        (&cells[1]["expires_at"], &cells[1]["expired"]),
        (&"4294967294".into(), &false.into())
    );
}

#[test]
fn lines_have_labels() {
    let all = |table: &str| dump(&["cassandra", &arg(&data().join(table)), "--raw-times"]);
    let (ranges, _) = all("nb/ranges/nb-1-big-Data.db");
    for line in [
        "1, 'one'\tstatic\ts\t100\tvalue\t'static'",
        "1, 'one'\tto and with (4)\t-\t200\trange deleted ",
        "1, 'one'\tfrom and without (4)\t-\t300\trange deleted ",
        "3, 'three'\t-\t-\t600\tpartition deleted ",
        "1, 'one'\t(9, 'row', '1970-01-01 00:00:00.007Z')\t-\t500\trow deleted ",
        "2, ''\t(0, 'only keys', '1970-01-01 00:00:00.000Z')\t-\t100\trow\t",
    ] {
        assert!(ranges.lines().any(|l| l.starts_with(line)), "{line:?} in\n{ranges}");
    }
    let (counters, _) = all("nb/counters/nb-1-big-Data.db");
    let sums: Vec<&str> =
        counters.lines().filter_map(|l| l.split_once("\tvalue\t")).map(|l| l.1).collect();
    assert_eq!(sums, ["9", "42", "1"]);
}

#[test]
fn damage_is_named() {
    let room = Room::new("cassandra");
    let from = data().join("nb/types");
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), room.path(entry.file_name().to_str().unwrap())).unwrap();
    }
    let file = room.path("nb-1-big-Data.db");
    let sound = format!("{}: sound, 6 partitions and 5 rows\n", file.display());
    assert_eq!(dump(&["cassandra", &arg(&file), "--check"]), (sound, 0));
    let mut bytes = fs::read(&file).unwrap();
    bytes[100] ^= 1;
    fs::write(&file, bytes).unwrap();
    let why = format!("{}, byte 0: the checksum of this chunk is another one", file.display());
    assert_eq!(dump(&["cassandra", &arg(&file), "--check"]), (format!("{why}\n"), 1));
    let (text, code) = dump(&["cassandra", &arg(&file)]);
    assert!(text.starts_with(&format!("error: {why}\n next: ")) && code == 2, "{text}");
    let (text, _) = dump(&["cassandra", &arg(&file), "--check", "--json"]);
    let said: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&said["sound"], &said["error_offset"]), (&false.into(), &0.into()));
    fs::remove_file(room.path("nb-1-big-Statistics.db")).unwrap();
    let (text, code) = dump(&["cassandra", &arg(&file)]);
    assert!(text.contains("Statistics.db: there is no such file") && code == 2, "{text}");
}

#[test]
fn the_header_has_types_and_other_commands_refer_to_it() {
    let file = arg(&data().join("nb/collections/nb-1-big-Data.db"));
    let (text, code) = dump(&["cassandra", &file, "--header", "--json"]);
    let said: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&said["version"], &said["clustering"][0], code), (&"nb".into(), &"int".into(), 0));
    assert_eq!(said["columns"][1], serde_json::json!(["fm", "frozen<map<int, frozen<set<int>>>>"]));
    for command in ["scan", "check", "space"] {
        let (text, code) = dump(&[command, &file]);
        assert!(text.contains("`sstable-dump cassandra FILE`") && code == 2, "{command}: {text}");
    }
}
