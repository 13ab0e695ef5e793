//! Checks the log of a store, or one segment.
//!
//! Invariant: the findings state in numbers what recovery would discard or refuse, and name each
//! missing file.

use std::path::Path;

use firn_kv::Env;
use firn_kv::internals::base::ops::OpReader;
use firn_kv::internals::manifest::ManifestState;
use firn_kv::internals::wal::format::{SEGMENT_HEADER, SegmentHeader};
use firn_kv::internals::wal::{
    LogItem, RecoveredLog, SegmentReader, TornTail, recover_known, segment_name, segments,
};
use firn_kv::{Error, Result};
use firn_tools::io;
use firn_tools::output::{Done, things};

use crate::check::findings::FindingKind;
use crate::check::report::Findings;
use crate::store::log_copy;
use crate::store::names::FileNames;
use crate::store::target::{dir_of, known};

/// A segment with a sound header.
struct SoundSegment {
    header: SegmentHeader,
    len: u64,
    /// Number of bytes missing at its end.
    cut: u64,
    end: u64,
}

fn sound_segments(env: &dyn Env, dir: &Path) -> Result<Vec<SoundSegment>> {
    let mut all = vec![];
    for info in segments(env, dir)? {
        let mut reader = SegmentReader::open(env, dir, info.number)?;
        if let Some(header) = reader.header().cloned() {
            all.push(SoundSegment {
                header,
                len: reader.file_len(),
                cut: reader.cut_off()?,
                end: info.end,
            });
        }
    }
    Ok(all)
}

/// Checks the log from the position from which the manifest needs it.
pub fn check(names: &FileNames, state: &ManifestState, f: &mut Findings) {
    if let Err(e) = check_files(names, state, f) {
        f.add(e);
    }
    let recovered =
        recover_known(names, names.dir(), state.wal_floor, &known(state), &mut |_, _, payload| {
            f.records += 1;
            match OpReader::new(payload).all(|op| op.is_some()) {
                true => Ok(()),
                false => Err(Error::corruption(
                    "a log record with a sound checksum holds no sound operations",
                )),
            }
        });
    match recovered {
        Ok(RecoveredLog { end, torn: Some(t), .. }) => check_torn(names, end, &t, f),
        Ok(_) => {}
        // If a file is missing, recovery names the file before or after it.
        Err(_) if f.all.iter().any(|x| x.kind == FindingKind::Missing && is_segment(&x.error)) => {}
        Err(e) => f.add(e),
    }
}

fn is_segment(e: &Error) -> bool {
    e.file().and_then(Path::extension).is_some_and(|x| x == "wal")
}

/// Reports segments that are missing or truncated.
fn check_files(names: &FileNames, state: &ManifestState, f: &mut Findings) -> Result<()> {
    let all = sound_segments(names, names.dir())?;
    let needed: Vec<&SoundSegment> = all.iter().filter(|s| s.end > state.wal_floor).collect();
    for s in &needed {
        if s.cut > 0 {
            let words = format!(
                "the file has been cut off: it has {} of its original {}; later records are lost",
                things(s.len, "byte", "bytes"),
                s.header.capacity
            );
            f.add(
                Error::corruption(words)
                    .at(names.dir().join(segment_name(s.header.number)), s.len)
                    .block("wal segment"),
            );
        }
    }
    for s in &needed {
        let (base, before) = (s.header.base, s.header.previous);
        let there = all.iter().any(|o| o.header.number == before);
        if before > 0 && base > state.wal_floor && !there {
            let name = segment_name(before);
            let content = names
                .misnamed_content(&name)
                .map(|content| format!("the file of this name holds {content}"))
                .or_else(|| {
                    let other = io::not_a_file(&names.dir().join(&name))?;
                    Some(format!("there is {other} of its name, which has to be moved away"))
                })
                .map_or(String::new(), |words| format!(" ({words})"));
            let words =
                format!("the segment is missing{content}: it had the log up to position {base}");
            f.add_as(
                FindingKind::Missing,
                Error::corruption(words).in_file(names.dir().join(name)),
            );
        }
    }
    if let Some(n) = log_copy::lost_end(names)? {
        f.add_as(
            FindingKind::Missing,
            Error::corruption(log_copy::LOST_END).in_file(names.dir().join(segment_name(n))),
        );
    }
    Ok(())
}

/// Reports a torn end as a crash leaves it, or as damage if sound records follow it.
fn check_torn(names: &FileNames, end: u64, t: &TornTail, f: &mut Findings) {
    if t.records_beyond == 0 && t.cut > 0 {
        // `check_files` has reported the truncated file.
        return;
    }
    if t.records_beyond == 0 {
        f.notes.push(format!(
            "the log ends at offset {} of {} with {}: what a crash leaves, nothing that was synced is missing",
            t.offset,
            t.file.display(),
            t.reason,
        ));
        return;
    }
    let (mut records, mut ops) = (0, 0);
    let copied = log_copy::copy(names, None, end, &mut |_, to, payload| {
        if to > end {
            records += 1;
            ops += OpReader::new(payload).count() as u64;
        }
    });
    let saves = match copied {
        Ok(_) => format!(
            "salvage saves {} of them with {}",
            records,
            things(ops, "operation", "operations")
        ),
        Err(e) => format!("how many of them salvage would save is unknown: {e}"),
    };
    let words = format!(
        "the log has {} here, and {} after it; nothing proves that they were synced, so the next opening discards them; {saves}",
        t.reason,
        things(t.records_beyond, "sound record", "sound records"),
    );
    f.add_as(
        FindingKind::Discarded,
        Error::corruption(words).at(&t.file, t.offset).block("wal record"),
    );
}

/// Checks one segment by itself.
pub fn check_segment(env: &dyn Env, path: &Path, number: u64, mut f: Findings) -> Done<Findings> {
    let mut r = SegmentReader::open(env, &dir_of(path), number)?;
    let (len, mut synced, mut last) = (r.file_len(), 0, None);
    let mut damages = vec![];
    let header = r.header().cloned();
    while let Some(item) = r.next()? {
        match item {
            LogItem::Record(rec) => {
                f.records += 1;
                synced = synced.max(rec.synced);
                last = Some(rec.offset);
                if !rec.mark && !OpReader::new(rec.payload).all(|op| op.is_some()) {
                    let e = Error::corruption(
                        "a log record with a sound checksum holds no sound operations",
                    );
                    f.add(e.at(path, rec.offset).block("wal record"));
                }
            }
            LogItem::Damage(d) => damages.push(d),
        }
    }
    f.bytes = len;
    match &header {
        None if f.records > 0 => f.add(
            Error::corruption("the header is damaged").at(path, 0).block("wal segment header"),
        ),
        None => f.notes.push(format!("{}: never used, or not under this name", path.display())),
        Some(h) => {
            if r.cut_off()? > 0 {
                let words =
                    format!("the file has been cut off: it has {len} of its {} bytes", h.capacity);
                f.add(Error::corruption(words).at(path, len).block("wal segment"));
            }
            for d in damages {
                let lsn = h.base + (d.offset - SEGMENT_HEADER);
                if last.is_some_and(|l| l > d.offset) || synced > lsn {
                    f.add(
                        Error::corruption(format!("{} ({} bytes)", d.reason, d.len))
                            .at(path, d.offset)
                            .block("wal record"),
                    );
                } else {
                    f.notes.push(format!(
                        "{}: torn end at offset {}: {}",
                        path.display(),
                        d.offset,
                        d.reason
                    ));
                }
            }
        }
    }
    Ok(f)
}
