//! Damaged tables. Some have changed, cut or swapped bytes. Others have valid checksums, so that
//! only their structure is wrong.

use firn_kv::internals::sstable::format::{BLOCK_HEADER, BlockHeader, BlockKind, FOOTER};
use firn_kv::internals::util::checksum::checksum;
use firn_kv::{Compression, Result};
use firn_testkit::rng::Rng;

use super::made::Made;
use super::tables::Recipe;

/// Returns the blocks of a sound table: kind, offset, length, and whether they are uncompressed.
fn blocks(table: &[u8]) -> Vec<(BlockKind, usize, usize, bool)> {
    let (mut at, mut out) = (0, vec![]);
    while let Ok(h) = BlockHeader::read(&table[at..table.len() - FOOTER]) {
        let len = BLOCK_HEADER + h.stored_len;
        out.push((h.kind, at, len, h.codec == Compression::None));
        at += len;
    }
    out
}

/// Kinds of damage that checksums detect.
pub const BROKEN: [&str; 7] = [
    "a flipped bit",
    "a zeroed sector",
    "cut",
    "an extra byte",
    "two blocks swapped",
    "another table's name",
    "a block of another place",
];

/// Applies one kind of [`BROKEN`]; `None` if the table has no place for it.
fn broken(what: &str, rng: &mut Rng, table: &[u8]) -> Option<Vec<u8>> {
    let mut b = table.to_vec();
    let any = rng.below(b.len() as u64) as usize;
    match what {
        "a flipped bit" => b[any] ^= 1 << rng.below(8),
        "a zeroed sector" => {
            let end = (any + 512).min(b.len());
            b[any..end].fill(0);
        }
        "cut" => b.truncate(any),
        "an extra byte" => b.insert(any, 0),
        "two blocks swapped" => {
            let all = blocks(table);
            let i = rng.below(all.len() as u64 - 1) as usize;
            let ((_, at, n, _), (_, next, m, _)) = (all[i], all[i + 1]);
            b.truncate(at);
            b.extend_from_slice(&table[next..next + m]);
            b.extend_from_slice(&table[at..at + n]);
            b.extend_from_slice(&table[next + m..]);
        }
        "a block of another place" => {
            let all = blocks(table);
            let (from, to) = (all.first()?, all.iter().skip(1).find(|x| x.2 == all[0].2)?);
            b.copy_within(from.1..from.1 + from.2, to.1);
        }
        _ => {}
    }
    (b != table || what == "another table's name").then_some(b)
}

/// Kinds of damage under valid checksums.
pub const SEALED: [(&str, &str); 12] = [
    ("version 2", "newer"),
    ("a footer of another file length", "damaged"),
    ("a footer of other lengths", "damaged"),
    ("a block header with another byte", "damaged"),
    ("a block of unknown kind", "damaged"),
    ("a block of unknown compression", "damaged"),
    ("a data block with an unknown flag", "damaged"),
    ("a data block without entries", "damaged"),
    ("a data block with an offset too far", "damaged"),
    ("an index with an unknown flag", "damaged"),
    ("an index with another length", "damaged"),
    ("properties that break off", "damaged"),
];

fn seal_block(b: &mut [u8], id: u64, at: usize, len: usize) {
    let crc = checksum(id, at as u64, &[&b[at..at + 20], &b[at + BLOCK_HEADER..at + len]]);
    b[at + 20..at + 24].copy_from_slice(&crc.to_le_bytes());
}

fn seal_footer(b: &mut [u8], id: u64) {
    let at = b.len() - FOOTER;
    let crc = checksum(id, at as u64, &[&b[at..at + 56], &b[at + 60..]]);
    b[at + 56..at + 60].copy_from_slice(&crc.to_le_bytes());
}

/// Applies one kind of [`SEALED`]; `None` if the table has no place for it.
fn sealed(what: &str, id: u64, table: &[u8]) -> Option<Vec<u8>> {
    let mut b = table.to_vec();
    let footer = b.len() - FOOTER;
    let all = blocks(table);
    let of = |kind: BlockKind| all.iter().find(|x| x.0 == kind && x.3).copied();
    let (at, len) = match what {
        _ if what.starts_with("a data block") => of(BlockKind::Data).map(|x| (x.1, x.2))?,
        _ if what.starts_with("an index") => {
            of(BlockKind::Index).filter(|x| x.2 > BLOCK_HEADER + 3).map(|x| (x.1, x.2))?
        }
        _ if what.starts_with("properties") => of(BlockKind::Properties).map(|x| (x.1, x.2))?,
        _ => all.first().map(|x| (x.1, x.2))?,
    };
    let raw = at + BLOCK_HEADER;
    match what {
        "version 2" => b[footer + 60] = 2,
        "a footer of another file length" => b[footer + 36] = 1,
        "a footer of other lengths" => {
            b[footer + 24] = b[footer + 24].wrapping_add(1);
            b[footer + 28] = b[footer + 28].wrapping_sub(1);
        }
        "a block header with another byte" => b[at + 17] = 1,
        "a block of unknown kind" => b[at + 4] = 6,
        "a block of unknown compression" => b[at + 5] = 2,
        "a data block with an unknown flag" => b[raw + 6] |= 8,
        "a data block without entries" => b[raw..raw + 4].fill(0),
        "a data block with an offset too far" => {
            let n = u32::from_le_bytes([b[raw], b[raw + 1], b[raw + 2], b[raw + 3]]) as usize;
            b[raw + 16 + 8 * n + 2 * n] ^= 1;
        }
        "an index with an unknown flag" => b[at + len - 1] |= 16,
        "an index with another length" => b[raw] ^= 1,
        _ => b[at + len - 1] ^= 0x80,
    }
    if what == "properties that break off" {
        // The last value is the writer's name. Its length field exceeds the remaining bytes.
        let name = b.windows(7).rposition(|w| w == b"\x06writer")?;
        b[at + len - 1] = table[at + len - 1];
        b[name + 7] += 1;
    }
    seal_block(&mut b, id, at, len);
    seal_footer(&mut b, id);
    Some(b)
}

/// Applies every kind of damage to about `each` of the tables.
pub fn make(recipes: &[Recipe], each: usize, made: &mut Made) -> Result<()> {
    let mut rng = Rng::new(1);
    let small: Vec<&Recipe> = recipes.iter().filter(|r| !r.shape.contains("more keys")).collect();
    let mut n = 0;
    let mut put = |bytes: Vec<u8>, id: u64, what: &str, verdict: &str| {
        n += 1;
        let path = format!("damaged/table-{n:04}/{id:08}.sst");
        made.file(&path, bytes);
        made.refused(path, "table", what, verdict);
    };
    for what in BROKEN {
        for _ in 0..each {
            let Some(recipe) = rng.choose(&small) else { break };
            if let Some(b) = broken(what, &mut rng, &recipe.table()?) {
                put(
                    b,
                    if what == "another table's name" { recipe.id + 1 } else { recipe.id },
                    what,
                    "damaged",
                );
            }
        }
    }
    for (what, verdict) in SEALED {
        for _ in 0..each {
            let Some(recipe) = rng.choose(&small) else { break };
            if let Some(b) = sealed(what, recipe.id, &recipe.table()?) {
                put(b, recipe.id, what, verdict);
            }
        }
    }
    Ok(())
}
