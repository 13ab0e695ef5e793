//! Models one cache of unlimited size for each thread. Finds the lines for which an operation waits
//! because another thread wrote them, or read a line that the operation writes.
//!
//! The holders of a line are the threads that have read it since its last write. A thread that
//! reads a line written by another thread fetches it. A thread that writes a line held by others
//! takes it from them. Both are a *move* of the line. The first access to a line is no move,
//! because no protocol and no layout could avoid it.

use std::collections::{BTreeMap, HashMap};

/// Size of a cache line in bytes.
pub const LINE: u64 = 64;
/// Maximum number of threads.
pub const THREADS: usize = 16;

/// One access to memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryAccess {
    /// Address of the instruction.
    pub code: u64,
    /// Address of the first byte.
    pub at: u64,
    /// Number of bytes.
    pub size: u8,
    /// Whether the access writes. Accesses that read and write count as writes.
    pub writes: bool,
    /// Number of instructions that the operation executed before the access.
    pub after: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct OtherWords {
    read: u8,
    written: u8,
}

#[derive(Default)]
struct SharedLine {
    /// Threads that hold the current version of the line, one bit each.
    holders: u16,
    /// Thread that wrote the line last, unless another thread has read it since.
    writer: Option<usize>,
    /// Words that other threads have accessed since each thread's last operation on the line.
    others: [OtherWords; THREADS],
}

/// Effect of an operation on a line.
#[derive(Clone, Debug, Default)]
pub struct LineUse {
    /// Number of waits for the line: one to read it, and one more to write it afterwards.
    pub moves: u32,
    /// Accesses that waited.
    pub moved_by: Vec<MemoryAccess>,
    /// Instructions that accessed the line, each once, and whether they write.
    pub touched_by: Vec<(u64, bool)>,
    /// Whether the sharing is true. It is if another thread wrote a word that was read, or accessed
    /// a word that was written.
    pub is_true: bool,
    read: u8,
    written: u8,
    before: OtherWords,
}

/// Returns the words of each line that an access touches.
fn lines_of(access: &MemoryAccess) -> impl Iterator<Item = (u64, u8)> {
    let (first, end) = (access.at, access.at + u64::from(access.size.max(1)));
    (first / LINE..=(end - 1) / LINE).map(move |line| {
        let from = first.max(line * LINE) % LINE / 8;
        let to = (end.min((line + 1) * LINE) - 1) % LINE / 8;
        (line, (from..=to).fold(0, |words, w| words | 1 << w))
    })
}

/// Caches of all threads.
#[derive(Default)]
pub struct Coherence(HashMap<u64, SharedLine>);

impl Coherence {
    /// Applies one operation of a thread. Returns its effect on each line.
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
    /// Applies an access. Reports whether the line moves.
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
        assert_eq!(
            moves(&mut c, 1, &[access(16, true)]),
            [(0, 1, true)],
            "the other thread read it"
        );
    }

    #[test]
    fn a_read_then_write_waits_twice_and_an_access_may_span_lines() {
        let mut c = Coherence::default();
        assert_eq!(moves(&mut c, 0, &[access(60, true)]), []);
        let twice = [access(64, false), access(64, true)];
        assert_eq!(moves(&mut c, 1, &twice), [(1, 2, true)]);
        assert_eq!(moves(&mut c, 1, &[access(0, false)]), [(0, 1, false)]);
    }
}
