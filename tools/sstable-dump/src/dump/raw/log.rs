//! The fields of a log segment, record by record.

use std::path::Path;

use firn_kv::Env;
use firn_kv::internals::base::ops::{Op, OpReader};
use firn_kv::internals::util::coding::u32_at;
use firn_kv::internals::wal::format::{DATA, MARK, SEGMENT_HEADER};
use firn_kv::internals::wal::{LogItem, SegmentReader, WalRecord};
use firn_kv::{Error, Result};
use serde_json::{Map, Value, json};

use crate::dump::text::hex_json;
/// Returns the fields of segment `number` in `dir`: its header, its sound records, and the bytes
/// between them as `damage`.
pub fn fields(env: &dyn Env, dir: &Path, number: u64) -> Result<Map<String, Value>> {
    let mut reader = SegmentReader::open(env, dir, number)?;
    let path = reader.path().to_path_buf();
    let Some(h) = reader.header().cloned() else {
        let what = "the header is damaged, or nothing was written to this segment yet";
        return Err(Error::corruption(what).at(path, 0).block("wal segment header"));
    };
    let (mut records, mut damage) = (vec![], vec![]);
    while let Some(item) = reader.next()? {
        match item {
            LogItem::Record(r) => records.push(record(&r).ok_or_else(|| {
                let what = "a record whose checksum is right and whose operations are not";
                Error::corruption(what).at(&path, r.offset).block("wal record")
            })?),
            LogItem::Damage(d) => {
                damage.push(json!({"at": d.offset, "len": d.len, "reason": d.reason}))
            }
        }
    }
    let header = json!({
        "version": h.version.number(), "len_header": SEGMENT_HEADER, "number": h.number, "base": h.base, "synced": h.synced,
        "previous": h.previous, "capacity": h.capacity, "store": h.store, "writer": h.writer, "checksum": u32_at(&h.encode(), 76),
    });
    Ok(Map::from_iter([
        ("header".into(), header),
        ("records".into(), records.into()),
        ("damage".into(), damage.into()),
    ]))
}

fn record(r: &WalRecord<'_>) -> Option<Value> {
    let operations = OpReader::new(r.payload)
        .map(|op| op.map(|(tree, op)| operation(tree, op)))
        .collect::<Option<Vec<_>>>()?;
    Some(json!({
        "at": r.offset, "checksum": r.checksum, "len_payload": r.payload.len(), "generation": r.generation,
        "kind": if r.mark { MARK } else { DATA }, "seq_number": r.seq, "synced": r.synced, "operations": operations,
    }))
}

fn operation(tree: u32, op: Op<'_>) -> Value {
    match op {
        Op::Point { kind, key, value } => {
            let op = ["put", "delete", "merge"][kind as usize - 1];
            let mut out = json!({"op": op, "tree": tree, "key": hex_json(key)});
            if op != "delete" {
                out["value"] = hex_json(value);
            }
            out
        }
        Op::DeleteRange { start, end } => {
            json!({"op": "delete_range", "tree": tree, "key": hex_json(start), "value": hex_json(end)})
        }
    }
}
