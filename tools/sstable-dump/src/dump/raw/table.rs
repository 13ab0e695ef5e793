//! The fields of a table or a blob file, block by block.

use std::path::Path;

use firn_kv::fs::ReadFile;
use firn_kv::internals::sstable::fields::{self, Property};
use firn_kv::internals::sstable::format::{
    BLOCK_HEADER, BlockHeader, BlockKind, FOOTER, Footer, StoredBlock, block_error,
};
use firn_kv::internals::sstable::values;
use firn_kv::internals::util::coding::u32_at;
use firn_kv::{Error, Result};
use serde_json::{Map, Value, json};

use crate::dump::text::hex_json;
use crate::store::target::{MAX_BLOCK, table_file, table_number};

struct RawFile<'a> {
    file: &'a dyn ReadFile,
    path: &'a Path,
    id: u64,
}

/// Returns the fields of the table or blob file at `path`. Its id is the number in its name, or
/// else the number in its footer.
pub fn fields(path: &Path) -> Result<Map<String, Value>> {
    let (file, id) = table_file(path)?;
    // As in the specification, the name determines the content: nothing is corrected.
    let named = path.file_name().and_then(|n| n.to_str()).and_then(table_number);
    let id = named.unwrap_or(id);
    let at = file.len().checked_sub(FOOTER as u64);
    let at = at.ok_or_else(|| {
        Error::corruption("too short for a table file").at(path, 0).block("footer")
    })?;
    let mut bytes = [0; FOOTER];
    file.read_at(at, &mut bytes)?;
    let footer = Footer::decode(&bytes, path, id, at)?;
    let file = RawFile { file: &*file, path, id };

    let mut rows = vec![];
    let (mut index, mut data) = (None, vec![]);
    if footer.is_of_values() {
        data = file.values(footer.data_len)?;
    } else {
        let len = footer.index_len.into();
        index = Some(file.block(BlockKind::Index, footer.index_at(), len, |raw| {
            let index = fields::index_block(raw, footer.data_len)?;
            let row = |r: &fields::IndexRow| json!({"separator": hex_json(&r.separator), "len_block": r.len, "num_entries": r.entries, "flags": r.flags});
            let cells = index.rows.iter().map(row).collect::<Vec<_>>();
            rows = index.rows;
            Ok(json!({"num_blocks": rows.len(), "prefix": hex_json(&index.prefix), "rows": cells}))
        })?);
    }
    for r in &rows {
        data.push(file.block(BlockKind::Data, r.offset, r.len, data_block)?);
    }

    let mut out = Map::new();
    out.insert("data".into(), json!({"blocks": data}));
    if footer.filter_len > 0 {
        out.insert(
            "filter".into(),
            file.block(BlockKind::Filter, footer.data_len, footer.filter_len.into(), filter_block)?,
        );
    }
    if footer.tombstones_len > 0 {
        let len = footer.tombstones_len.into();
        out.insert(
            "tombstones".into(),
            file.block(BlockKind::Tombstones, footer.tombstones_at(), len, tombstone_block)?,
        );
    }
    let properties = file.block(
        BlockKind::Properties,
        footer.properties_at(),
        footer.properties_len.into(),
        properties_block,
    )?;
    out.extend(index.map(|index| ("index".to_owned(), index)));
    out.insert("properties".into(), properties);
    out.insert(
        "footer".into(),
        json!({
            "at": at, "file_id": footer.id, "len_data": footer.data_len, "len_filter": footer.filter_len,
            "len_tombstones": footer.tombstones_len, "len_index": footer.index_len, "len_properties": footer.properties_len,
            "len_file": at + FOOTER as u64, "store": footer.identity.store, "unique": footer.identity.unique, "checksum": u32_at(&bytes, 56), "version": footer.version.number(),
        }),
    );
    Ok(out)
}

impl RawFile<'_> {
    /// Returns the values of a blob file, whose blocks fill its first `data_len` bytes.
    fn values(&self, data_len: u64) -> Result<Vec<Value>> {
        let (mut all, mut at) = (vec![], 0);
        while at < data_len {
            let bad = |what: &str| {
                Error::corruption(what).at(self.path, at).block(BlockKind::Blob.name())
            };
            if data_len - at < BLOCK_HEADER as u64 {
                return Err(bad("a block that is cut off"));
            }
            let mut h = [0; BLOCK_HEADER];
            self.file.read_at(at, &mut h)?;
            let len = (BLOCK_HEADER + BlockHeader::read(&h).map_err(bad)?.stored_len) as u64;
            if len > data_len - at {
                return Err(bad("a block that is cut off"));
            }
            all.push(self.block(BlockKind::Blob, at, len, blob_block)?);
            at += len;
        }
        Ok(all)
    }

    /// Returns a physical block; `content` decodes its content.
    fn block(
        &self,
        kind: BlockKind,
        at: u64,
        len: u64,
        content: impl FnOnce(&[u8]) -> Result<Value, &'static str>,
    ) -> Result<Value> {
        let bad = |what: &str| block_error(what).at(self.path, at).block(kind.name());
        if len > MAX_BLOCK {
            return Err(bad("a block that is too large"));
        }
        let mut block = vec![0; len as usize];
        self.file.read_at(at, &mut block)?;
        let stored = StoredBlock::check(&block, kind, self.id, at).map_err(bad)?;
        let header = BlockHeader::read(&block).map_err(bad)?;
        let content = stored.to_vec().and_then(|raw| content(&raw)).map_err(bad)?;
        let codec = header.codec.name();
        Ok(json!({
            "at": at, "kind": kind.name(), "codec": codec, "len_stored": header.stored_len, "len_raw": header.raw_len,
            "checksum": header.checksum, "stored": hex_json(stored.bytes), "content": content,
        }))
    }
}

fn data_block(raw: &[u8]) -> Result<Value, &'static str> {
    let b = fields::data_block(raw)?;
    let entry = |e: &fields::DataEntry<'_>| {
        json!({
            "code_number": e.code, "seq_number": e.trailer.seq(), "kind": e.trailer.kind().map(|k| k as u8),
            "len_suffix": e.suffix_len, "rest": hex_json(e.rest), "value": hex_json(e.value),
        })
    };
    Ok(json!({
        "num_entries": b.entries.len(), "len_prefix": b.prefix.len(), "flags": b.flags, "width": b.width, "base": b.base,
        "heads": b.entries.iter().map(|e| e.head).collect::<Vec<_>>(),
        "offsets": b.entries.iter().map(|e| e.offset).chain([b.end]).collect::<Vec<_>>(),
        "prefix": hex_json(b.prefix), "entries": b.entries.iter().map(entry).collect::<Vec<_>>(),
    }))
}

fn blob_block(raw: &[u8]) -> Result<Value, &'static str> {
    let (key, trailer, value) = values::blob_block(raw)?;
    Ok(
        json!({"len_key": key.len(), "trailer": trailer.0, "key": hex_json(key), "value": hex_json(value)}),
    )
}

fn filter_block(raw: &[u8]) -> Result<Value, &'static str> {
    let f = fields::filter_block(raw)?;
    Ok(json!({
        "kind": f.kind, "dropped": f.dropped, "len_segment": f.segment_len, "seed": f.seed, "len_segments": f.segments_len,
        "num_fingerprints": f.len, "fingerprints": hex_json(&f.fingerprints),
    }))
}

fn tombstone_block(raw: &[u8]) -> Result<Value, &'static str> {
    let fragments = fields::tombstone_block(raw)?;
    let fragment = |f: &firn_kv::internals::range_del::tombstone::Fragment| {
        let distances: Vec<u64> = f.seqs.windows(2).map(|w| w[0] - w[1]).collect();
        json!({
            "start": hex_json(&f.start), "end": hex_json(&f.end), "num_seqs": f.seqs.len(), "newest": f.seqs.first(), "distances": distances,
        })
    };
    let all: Vec<_> = fragments.as_slice().iter().map(fragment).collect();
    Ok(json!({"num_fragments": all.len(), "fragments": all}))
}

fn properties_block(raw: &[u8]) -> Result<Value, &'static str> {
    let value = |p: Property<'_>| match p {
        Property::Number(n) => json!(n),
        Property::Text(t) => json!(t),
        Property::Bytes(b) => hex_json(b),
    };
    let pairs = fields::properties_block(raw)?;
    let pair = |(name, p): (&[u8], Property<'_>)| json!({"name": String::from_utf8_lossy(name), "value": value(p)});
    Ok(json!({"pairs": pairs.into_iter().map(pair).collect::<Vec<_>>()}))
}
