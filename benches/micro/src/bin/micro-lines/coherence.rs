//! Caches that never forget, one for each thread: which lines an operation has to wait for because
//! another thread wrote them, or read what it writes.
//!
//! A line is held by those who have read it since it was written last. Who reads a line that
//! another one wrote fetches it; who writes a line that others hold takes it from them. Both are a
//! *move* of the line. What is met for the first time is no move: no protocol and no layout would
//! save it.

use std::collections::{BTreeMap, HashMap};

/// Bytes of a cache line.
pub const LINE: u64 = 64;
/// Threads at most.
pub const THREADS: usize = 16;

/// One access to memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryAccess {
    /// The instruction.
    pub code: u64,
    /// The first byte.
    pub at: u64,
    /// How many bytes.
    pub size: u8,
    /// Whether it writes; what reads and writes at once does.
    pub writes: bool,
    /// How many instructions of the operation were done before it.
    pub after: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct OtherWords {
    read: u8,
    written: u8,
}

#[derive(Default)]
struct SharedLine {
    /// Who has it as it is now, a bit each.
    holders: u16,
    /// Who wrote it last, unless somebody else has read it since.
    writer: Option<usize>,
    /// For each thread, the words that others have touched since its last operation on the line.
    others: [OtherWords; THREADS],
}

/// What an operation did with a line.
#[derive(Clone, Debug, Default)]
pub struct LineUse {
    /// How often it was waited for: once to read it, once more to write it after that.
    pub moves: u32,
    /// The accesses that waited.
    pub moved_by: Vec<MemoryAccess>,
    /// Instructions that touched it, each once, with whether they write.
    pub touched_by: Vec<(u64, bool)>,
    /// Whether any word that was read had been written by another, or any that was written had been
    /// touched.
    pub is_true: bool,
    read: u8,
    written: u8,
    before: OtherWords,
}

/// The words of a line that an access touches, line by line.
fn lines_of(access: &MemoryAccess) -> impl Iterator<Item = (u64, u8)> {
    let (first, end) = (access.at, access.at + u64::from(access.size.max(1)));
    (first / LINE..=(end - 1) / LINE).map(move |line| {
        let from = first.max(line * LINE) % LINE / 8;
        let to = (end.min((line + 1) * LINE) - 1) % LINE / 8;
        (line, (from..=to).fold(0, |words, w| words | 1 << w))
    })
}

/// The caches of all threads.
#[derive(Default)]
pub struct Coherence(HashMap<u64, SharedLine>);

impl Coherence {
    /// One operation of a thread: what it did with each line.
    pub fn operation(
        &mut self,
        thread: usize,
        accesses: &[MemoryAccess],
    ) -> BTreeMap<u64, LineUse> {
        let mut uses: BTreeMap<u64, LineUse> = BTreeMap::new();
        for access in accesses {
            for (number, words) in lines_of(access) {
                let line = self.0.entry(number).or_default();
                let of = uses.entry(number).or_insert_with(|| LineUse {
                    before: std::mem::take(&mut line.others[thread]),
                    ..LineUse::default()
                });
                if line.touch(thread, words, access.writes) {
                    of.moves += 1;
                    of.moved_by.push(*access);
                }
                if access.writes {
                    of.written |= words;
                } else {
                    of.read |= words;
                }
                if !of.touched_by.contains(&(access.code, access.writes)) {
                    of.touched_by.push((access.code, access.writes));
                }
            }
        }
        for of in uses.values_mut() {
            let OtherWords { read, written } = of.before;
            of.is_true = (of.read | of.written) & written != 0 || of.written & read != 0;
        }
        uses
    }
}

impl SharedLine {
    /// Whether the line moves.
    fn touch(&mut self, thread: usize, words: u8, writes: bool) -> bool {
        let own = 1 << thread;
        let others = self.others.iter_mut().enumerate().filter(|(t, _)| *t != thread);
        if writes {
            others.for_each(|(_, of)| of.written |= words);
            let moves = self.holders & !own != 0;
            (self.holders, self.writer) = (own, Some(thread));
            return moves;
        }
        others.for_each(|(_, of)| of.read |= words);
        let moves = self.holders & own == 0 && self.writer.is_some_and(|w| w != thread);
        if moves {
            self.writer = None;
        }
        self.holders |= own;
        moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(at: u64, writes: bool) -> MemoryAccess {
        MemoryAccess { code: 1, at, size: 8, writes, after: 0 }
    }

    fn moves(c: &mut Coherence, thread: usize, of: &[MemoryAccess]) -> Vec<(u64, u32, bool)> {
        let mut lines: Vec<_> = c
            .operation(thread, of)
            .into_iter()
            .filter(|(_, u)| u.moves > 0)
            .map(|(l, u)| (l, u.moves, u.is_true))
            .collect();
        lines.sort_unstable();
        lines
    }

    #[test]
    fn a_counter_moves_and_what_is_only_read_does_not() {
        let (mut c, both) = (Coherence::default(), [access(0, true), access(64, false)]);
        assert_eq!(moves(&mut c, 0, &both), []);
        assert_eq!(moves(&mut c, 1, &both), [(0, 1, true)]);
        assert_eq!(moves(&mut c, 1, &both), []);
        assert_eq!(moves(&mut c, 0, &both), [(0, 1, true)]);
    }

    #[test]
    fn two_words_of_one_line_are_shared_falsely() {
        let mut c = Coherence::default();
        assert_eq!(moves(&mut c, 0, &[access(0, true)]), []);
        assert_eq!(moves(&mut c, 1, &[access(8, true)]), [(0, 1, false)]);
        assert_eq!(moves(&mut c, 0, &[access(16, false)]), [(0, 1, false)]);
        assert_eq!(moves(&mut c, 1, &[access(16, true)]), [(0, 1, true)], "the other one read it");
    }

    #[test]
    fn who_reads_and_then_writes_waits_twice_and_an_access_may_span_lines() {
        let mut c = Coherence::default();
        assert_eq!(moves(&mut c, 0, &[access(60, true)]), []);
        let twice = [access(64, false), access(64, true)];
        assert_eq!(moves(&mut c, 1, &twice), [(1, 2, true)]);
        assert_eq!(moves(&mut c, 1, &[access(0, false)]), [(0, 1, false)]);
    }
}
