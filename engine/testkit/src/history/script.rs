//! Histories as text: a failing one is printed as a script, and a script can be replayed. A line is
//! a step: its word, and its arguments in order. Parsing a script returns the printed steps.

use std::fmt::{self, Write as _};
use std::ops::Bound;
use std::str::SplitWhitespace;

use super::{Filler, HistoryEnds, HistoryKey, Move, Span, Write};

/// Steps with the seed of options and disk faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// The seed.
    pub seed: u64,
    /// The steps.
    pub steps: Vec<HistoryOp>,
}

impl Script {
    /// Parses the output of [`Display`](fmt::Display). Ignores empty lines and those that begin
    /// with `#`.
    ///
    /// # Errors
    /// The invalid line, and the reason.
    pub fn parse(text: &str) -> Result<Script, String> {
        let (mut seed, mut steps) = (None, vec![]);
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let mut words = line.split_whitespace();
            let word = words.next().unwrap_or("");
            let fail = |why| format!("{line:?}: {why}");
            if word == "seed:" {
                seed = Some(u64::take(&mut words).map_err(fail)?);
            } else {
                steps.push(parse_op(word, &mut words).map_err(fail)?);
            }
            if let Some(more) = words.next() {
                return Err(format!("{line:?}: nothing takes the argument {more:?}"));
            }
        }
        Ok(Script { seed: seed.ok_or("there is no line \"seed: NUMBER\"")?, steps })
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed: {}", self.seed)?;
        self.steps.iter().try_for_each(|op| writeln!(f, "{}", show_op(op)))
    }
}

/// A type that is one or several arguments.
trait Argument: Sized {
    fn put(&self, out: &mut String);
    fn take(words: &mut SplitWhitespace<'_>) -> Result<Self, String>;
}

fn next<'a>(words: &mut SplitWhitespace<'a>) -> Result<&'a str, String> {
    words.next().ok_or_else(|| "an argument is missing".into())
}

/// Defines the steps with their words. The fields are the arguments, in this order.
macro_rules! steps {
    ($($name:ident $word:literal $({ $($field:ident: $of:ty),* })?,)*) => {
        /// The action of a step. `tree`, `slot`: index into the [`TREES`](super::TREES) and
        /// [`SLOTS`](super::SLOTS). `at`: the snapshot to read, or the present.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum HistoryOp { $($name $({ $($field: $of),* })?),* }

        fn show_op(op: &HistoryOp) -> String {
            let mut out = String::new();
            match op {
                $(HistoryOp::$name $({ $($field),* })? => {
                    out.push_str($word);
                    $($($field.put(&mut out);)*)?
                })*
            }
            out
        }

        fn parse_op(word: &str, words: &mut SplitWhitespace<'_>) -> Result<HistoryOp, String> {
            match word {
                $($word => {
                    $($(let $field = Argument::take(words)?;)*)?
                    Ok(HistoryOp::$name $({ $($field),* })?)
                })*
                _ => Err("there is no such step".into()),
            }
        }
    };
}

steps! {
    Write "write" { tree: usize, write: Write, power: bool },
    Batch "batch" { writes: Vec<(usize, Write)>, power: bool },
    Sync "sync",
    Pop "pop" { tree: usize, back: bool },
    InsertIfAbsent "insert_if_absent" { tree: usize, key: HistoryKey, value: Filler },
    Swap "swap" { tree: usize, key: HistoryKey, right: bool, value: Option<Filler> },
    Update "update" { tree: usize, key: HistoryKey, value: Option<Filler> },
    Clear "clear" { tree: usize },
    Get "get" { tree: usize, key: HistoryKey, at: Option<usize> },
    Edges "edges" { tree: usize, at: Option<usize> },
    Contains "contains" { tree: usize, key: HistoryKey, at: Option<usize> },
    MultiGet "multi_get" { tree: usize, keys: Vec<HistoryKey> },
    Scan "scan" { tree: usize, span: Span, ends: HistoryEnds, limit: usize, at: Option<usize> },
    Prefix "prefix" { tree: usize, prefix: HistoryKey, ends: HistoryEnds, limit: usize, at: Option<usize> },
    Walk "walk" { tree: usize, span: Span, moves: Vec<Move>, at: Option<usize> },
    FullScan "full_scan" { tree: usize },
    OpenIter "open_iter" { slot: usize, tree: usize, span: Span, at: Option<usize> },
    StepIter "step_iter" { slot: usize, front: usize, back: usize },
    CloseIter "close_iter" { slot: usize },
    OpenCursor "open_cursor" { slot: usize, tree: usize, span: Span, at: Option<usize> },
    MoveCursor "move_cursor" { slot: usize, moves: Vec<Move> },
    CloseCursor "close_cursor" { slot: usize },
    TakeSnapshot "snapshot" { slot: usize, named: bool },
    DropSnapshot "drop_snapshot" { slot: usize },
    Flush "flush" { tree: usize },
    Compact "compact" { tree: usize },
    CompactRange "compact_range" { tree: usize, from: HistoryKey, to: HistoryKey },
    DropRange "drop_range" { tree: usize, from: HistoryKey, to: HistoryKey },
    Ingest "ingest" { tree: usize, pairs: Vec<(HistoryKey, Filler)> },
    Export "export" { slot: usize, tree: usize, span: Span },
    Import "import" { slot: usize, tree: usize },
    Tables "tables" { tree: usize },
    WaitIdle "wait_idle",
    Begin "begin" { slot: usize },
    TxGet "tx_get" { slot: usize, tree: usize, key: HistoryKey },
    TxScan "tx_scan" { slot: usize, tree: usize, span: Span, back: bool, limit: usize },
    TxPut "tx_put" { slot: usize, tree: usize, key: HistoryKey, value: Filler },
    TxDelete "tx_delete" { slot: usize, tree: usize, key: HistoryKey },
    TxDeleteRange "tx_delete_range" { slot: usize, tree: usize, span: Span },
    Commit "commit" { slot: usize, power: bool },
    Abort "abort" { slot: usize },
    Retry "retry" { tree: usize, key: HistoryKey, value: Filler, disturb: bool },
    Reopen "reopen",
    Crash "crash",
    PowerCut "power_cut" { seed: Option<u64> },
    Checkpoint "checkpoint",
    ReadOnly "read_only",
    CreateTree "create_tree" { tree: usize },
    DropTree "drop_tree" { tree: usize },
    ChangeOptions "change_options" { tree: usize, variant: u64 },
    Size "size" { tree: usize, from: HistoryKey, to: HistoryKey },
    Stats "stats",
    Verify "verify",
    Advance "advance" { seconds: u64 },
    Refused "refused" { tree: usize },
}

macro_rules! plain {
    ($($of:ty)*) => {
        $(impl Argument for $of {
            fn put(&self, out: &mut String) {
                let _ = write!(out, " {self}");
            }
            fn take(words: &mut SplitWhitespace<'_>) -> Result<$of, String> {
                let word = next(words)?;
                word.parse().map_err(|e| format!("{word:?}: {e}"))
            }
        })*
    };
}

plain!(usize u64 u32 bool);

/// Implements [`Argument`] for an enum: the word of the variant, followed by its fields.
macro_rules! variants {
    ($(@[$($generic:tt)*])? $of:ty: $($word:literal => $variant:path $([$($field:ident)*])?,)*) => {
        impl $(<$($generic)*>)? Argument for $of {
            fn put(&self, out: &mut String) {
                match self {
                    $($variant $(($($field),*))? => {
                        out.push_str(concat!(" ", $word));
                        $($($field.put(out);)*)?
                    })*
                }
            }
            fn take(words: &mut SplitWhitespace<'_>) -> Result<Self, String> {
                match next(words)? {
                    $($word => {
                        $($(let $field = Argument::take(words)?;)*)?
                        Ok($variant $(($($field),*))?)
                    })*
                    other => Err(format!("{other:?} is none of {}", [$($word),*].join(", "))),
                }
            }
        }
    };
}

variants!(@[T: Argument] Option<T>: "none" => None, "some" => Some[it],);
variants!(Write: "put" => Write::Put[key value], "delete" => Write::Delete[key],
    "delete_range" => Write::DeleteRange[span], "merge" => Write::Merge[key value],);
variants!(Bound<HistoryKey>: "unbounded" => Bound::Unbounded, "included" => Bound::Included[key],
    "excluded" => Bound::Excluded[key],);
variants!(HistoryEnds: "front" => HistoryEnds::Front, "back" => HistoryEnds::Back,
    "both" => HistoryEnds::Both[seed],);
variants!(Move: "first" => Move::First, "last" => Move::Last, "seek" => Move::Seek[key],
    "seek_before" => Move::SeekBefore[key], "next" => Move::Next, "prev" => Move::Prev,);

/// The number of elements, and each of them.
impl<T: Argument> Argument for Vec<T> {
    fn put(&self, out: &mut String) {
        self.len().put(out);
        self.iter().for_each(|it| it.put(out));
    }
    fn take(words: &mut SplitWhitespace<'_>) -> Result<Self, String> {
        (0..usize::take(words)?).map(|_| T::take(words)).collect()
    }
}

impl<A: Argument, B: Argument> Argument for (A, B) {
    fn put(&self, out: &mut String) {
        self.0.put(out);
        self.1.put(out);
    }
    fn take(words: &mut SplitWhitespace<'_>) -> Result<Self, String> {
        Ok((A::take(words)?, B::take(words)?))
    }
}

/// Quoted; letters, digits and word separators unchanged, other bytes as `%hh`; repeated bytes as
/// `%hh*n;`.
impl Argument for HistoryKey {
    fn put(&self, out: &mut String) {
        out.push_str(" \"");
        for same in self.chunk_by(|a, b| a == b) {
            let b = same[0];
            match same.len() {
                n @ 8.. => out.push_str(&format!("%{b:02x}*{n};")),
                n if b.is_ascii_alphanumeric() || b"-_.".contains(&b) => {
                    (0..n).for_each(|_| out.push(b.into()))
                }
                n => out.push_str(&format!("%{b:02x}").repeat(n)),
            }
        }
        out.push('"');
    }
    fn take(words: &mut SplitWhitespace<'_>) -> Result<HistoryKey, String> {
        let word = next(words)?;
        let text = word
            .strip_prefix('"')
            .and_then(|w| w.strip_suffix('"'))
            .ok_or_else(|| format!("{word} is no key in quotes"))?;
        let mut parts = text.split('%');
        let mut key = parts.next().unwrap_or("").as_bytes().to_vec();
        for part in parts {
            let bad = || format!("%{part} in {word} is no byte");
            let (byte, rest) = part.split_at_checked(2).ok_or_else(bad)?;
            let byte = u8::from_str_radix(byte, 16).map_err(|_| bad())?;
            let times = rest.strip_prefix('*').and_then(|r| r.split_once(';'));
            let (n, rest) = match times {
                Some((n, rest)) => (n.parse().map_err(|_| bad())?, rest),
                None => (1, rest),
            };
            key.extend(std::iter::repeat_n(byte, n));
            key.extend_from_slice(rest.as_bytes());
        }
        Ok(key)
    }
}

impl Argument for Filler {
    fn put(&self, out: &mut String) {
        (self.seed, self.len).put(out);
    }
    fn take(words: &mut SplitWhitespace<'_>) -> Result<Filler, String> {
        let (seed, len) = Argument::take(words)?;
        Ok(Filler { seed, len })
    }
}

impl Argument for Span {
    fn put(&self, out: &mut String) {
        self.from.put(out);
        self.to.put(out);
    }
    fn take(words: &mut SplitWhitespace<'_>) -> Result<Span, String> {
        Ok(Span { from: Argument::take(words)?, to: Argument::take(words)? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{History, LONGEST_KEY};
    use super::*;

    #[test]
    fn writing_and_reading_are_inverse() {
        let steps =
            History::new(3, [false, false, true, true]).take(60_000).map(|s| s.op).collect();
        let script = Script { seed: 3, steps };
        let text = script.to_string();
        assert!(Script::parse(&text).as_ref() == Ok(&script));
        // A key of 512 KiB does not make a line of 512 KiB.
        let keys = vec![
            vec![],
            vec![0; LONGEST_KEY],
            b" %\"*;\n".to_vec(),
            [b"-".repeat(9), b"8;".to_vec()].concat(),
        ];
        let script = Script { seed: 0, steps: vec![HistoryOp::MultiGet { tree: 1, keys }] };
        let text = script.to_string();
        assert!(
            Script::parse(&format!("# why\n\n{text}")) == Ok(script) && text.len() < 120,
            "{text}"
        );
    }

    #[test]
    fn invalid_scripts_are_refused_with_their_line() {
        for (text, why) in [
            ("sync", "there is no line"),
            ("seed: x", "\"seed: x\""),
            ("seed: 1\nfly", "no such step"),
            ("seed: 1\nflush", "missing"),
            ("seed: 1\nflush 1 2", "nothing takes"),
            ("seed: 1\nget 1 \"%4\" none", "no byte"),
            ("seed: 1\nget 1 k none", "in quotes"),
        ] {
            let e = Script::parse(text).unwrap_err();
            assert!(e.contains(why), "{text:?}: {e}");
        }
    }
}
