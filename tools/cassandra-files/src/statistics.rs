//! `Statistics.db`: a directory of parts. Two are read, validation (partitioner) and the header of
//! the rows (`FORMAT.md`, "Statistics.db"); all four are written.

use crate::class::MarshalClass;
use crate::cursor::ByteCursor;
use crate::encode::{put_short, put_sized, put_vint};
use crate::fault::{BytesFault, NodeFault, NodeFaultKind};
use crate::files::{FileVersion, NodeFiles, read_part};
use crate::format::{
    COMPACTION, EPOCH_MICROS, EPOCH_SECONDS, HEADER, MEASURES, STATISTICS, VALIDATION,
};
use crate::header::{HeaderColumn, NodeHeader};

/// Largest accepted file in bytes: histograms and key bounds take some KiB.
const MOST: u64 = 64 << 20;
/// Reads the header of a table's rows.
pub(crate) fn read_header(
    files: &dyn NodeFiles,
    version: FileVersion,
) -> Result<NodeHeader, NodeFault> {
    let path = files.path(STATISTICS);
    let bytes = read_part(files, STATISTICS, MOST)?.ok_or_else(|| {
        let why = "there is no such file, and without it the types of the rows are not known";
        NodeFault::new(NodeFaultKind::Missing, &path, why)
    })?;
    parse(&bytes, version).map_err(|e| NodeFault::damaged(&path, e.at, e.why))
}

fn parse(bytes: &[u8], version: FileVersion) -> Result<NodeHeader, BytesFault> {
    let mut c = ByteCursor::new(bytes, 0);
    let count = c.u32("the number of parts")?;
    if count > 64 {
        return c.fault(format!("{count} parts are too many"));
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[..4]);
    if version.statistics_checksums {
        check(&mut c, crc.clone().finalize(), "the number of parts")?;
    }
    let from = c.offset() as usize;
    let mut parts = vec![];
    for _ in 0..count {
        let kind = c.u32("the kind of a part")?;
        parts.push((kind, c.u32("the place of a part")?));
    }
    crc.update(&bytes[from..c.offset() as usize]);
    if version.statistics_checksums {
        check(&mut c, crc.finalize(), "the directory of parts")?;
    }
    let (mut partitioner, mut header) = (None, None);
    for (i, &(kind, start)) in parts.iter().enumerate() {
        let end = parts.get(i + 1).map_or(bytes.len() as u64, |p| u64::from(p.1));
        let part = usize::try_from(end).ok().and_then(|end| bytes.get(start as usize..end));
        let Some(mut part) = part else {
            return Err(BytesFault::new(u64::from(start), "a part ends before it begins"));
        };
        if version.statistics_checksums {
            let Some((content, sum)) = part.split_last_chunk::<4>() else {
                return Err(BytesFault::new(u64::from(start), "a part has no checksum"));
            };
            if crc32fast::hash(content) != u32::from_be_bytes(*sum) {
                let why = format!("the checksum of part {kind} is another one");
                return Err(BytesFault::new(u64::from(start), why));
            }
            part = content;
        }
        let mut c = ByteCursor::new(part, u64::from(start));
        match kind {
            VALIDATION => partitioner = Some(c.text("the partitioner")?.to_owned()),
            HEADER => header = Some(rows(&mut c, version)?),
            _ => {}
        }
    }
    let Some(header) = header else {
        return Err(BytesFault::new(0, "it has no header of rows, as files before 3.0 have none"));
    };
    let partitioner = partitioner.unwrap_or_default();
    Ok(NodeHeader { partitioner, ..header })
}

fn check(c: &mut ByteCursor<'_>, sum: u32, of: &str) -> Result<(), BytesFault> {
    let at = c.offset();
    if c.u32("a checksum")? != sum {
        return Err(BytesFault::new(at, format!("the checksum of {of} is another one")));
    }
    Ok(())
}

fn rows(c: &mut ByteCursor<'_>, version: FileVersion) -> Result<NodeHeader, BytesFault> {
    let least_timestamp = EPOCH_MICROS.wrapping_add(c.vint("the least timestamp")? as i64);
    let least_second = EPOCH_SECONDS.wrapping_add(c.vint("the least second of deletion")? as i64);
    let least_ttl = c.vint("the least time to live")? as i64;
    let key = class(c)?;
    // A type has at least two bytes, which bounds the allocation.
    let count = c.length("the number of clustering columns")?;
    let clustering = (0..count).map(|_| class(c)).collect::<Result<_, _>>()?;
    let statics = columns(c)?;
    let regulars = columns(c)?;
    if c.left() > 0 {
        return c.fault("the header of rows goes on behind its end");
    }
    Ok(NodeHeader {
        partitioner: String::new(),
        key,
        clustering,
        statics,
        regulars,
        least_timestamp,
        least_second: version.second(least_second),
        least_ttl: i64::from(least_ttl as i32),
    })
}

fn class(c: &mut ByteCursor<'_>) -> Result<MarshalClass, BytesFault> {
    let at = c.offset();
    let text = c.sized("the name of a type")?;
    let text = std::str::from_utf8(text).map_err(|e| BytesFault::new(at, e.to_string()))?;
    MarshalClass::parse(text).map_err(|why| BytesFault::new(at, why))
}

fn columns(c: &mut ByteCursor<'_>) -> Result<Vec<HeaderColumn>, BytesFault> {
    let count = c.length("the number of columns")?;
    (0..count)
        .map(|_| {
            let name = c.sized("the name of a column")?.to_vec();
            Ok(HeaderColumn { name, class: class(c)? })
        })
        .collect()
}

/// Returns the whole file, in the version for writing. `measures` and `sketch` are encoded parts;
/// `chance` is the filter's.
pub(crate) fn statistics(
    header: &NodeHeader,
    chance: f64,
    sketch: Vec<u8>,
    measures: Vec<u8>,
) -> Result<Vec<u8>, String> {
    let mut validation = vec![];
    if !put_short(&mut validation, header.partitioner.as_bytes()) {
        return Err(format!("the partitioner's name has {} bytes", header.partitioner.len()));
    }
    validation.extend_from_slice(&chance.to_be_bytes());
    let parts = [
        (VALIDATION, validation),
        (COMPACTION, sketch),
        (MEASURES, measures),
        (HEADER, header_bytes(header)),
    ];
    let count = (parts.len() as u32).to_be_bytes();
    let mut directory = vec![];
    // After the count, the directory and their checksums.
    let mut at = 4 + 4 + parts.len() * 8 + 4;
    for (kind, part) in &parts {
        let Ok(place) = u32::try_from(at) else {
            return Err("its statistics would be larger than 4 GiB".to_owned());
        };
        directory.extend_from_slice(&kind.to_be_bytes());
        directory.extend_from_slice(&place.to_be_bytes());
        at += part.len() + 4;
    }
    let mut out = count.to_vec();
    out.extend_from_slice(&crc32fast::hash(&count).to_be_bytes());
    out.extend_from_slice(&directory);
    out.extend_from_slice(&crc32fast::hash(&[&count[..], &directory].concat()).to_be_bytes());
    for (_, part) in &parts {
        out.extend_from_slice(part);
        out.extend_from_slice(&crc32fast::hash(part).to_be_bytes());
    }
    Ok(out)
}

/// Encodes the header of rows for [`rows`].
fn header_bytes(header: &NodeHeader) -> Vec<u8> {
    let mut out = vec![];
    put_vint(&mut out, header.least_timestamp.wrapping_sub(EPOCH_MICROS) as u64);
    put_vint(&mut out, header.least_second.wrapping_sub(EPOCH_SECONDS) as u64);
    put_vint(&mut out, header.least_ttl as u64);
    put_sized(&mut out, header.key.full_name().as_bytes());
    put_vint(&mut out, header.clustering.len() as u64);
    for class in &header.clustering {
        put_sized(&mut out, class.full_name().as_bytes());
    }
    for columns in [&header.statics, &header.regulars] {
        put_vint(&mut out, columns.len() as u64);
        for column in columns {
            put_sized(&mut out, &column.name);
            put_sized(&mut out, column.class.full_name().as_bytes());
        }
    }
    out
}

impl FileVersion {
    /// Converts a computed sum to the second of a deletion.
    pub(crate) fn second(self, sum: i64) -> i64 {
        if self.unsigned_seconds { sum } else { i64::from(sum as i32) }
    }
}
