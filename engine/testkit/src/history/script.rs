//! Histories as text: a failing one is printed as a script, and a script can be replayed. A line is
//! a step: its word, and its arguments in order. Parsing a script returns the printed steps.

use std::fmt::{self, Write as _};
use std::ops::Bound;
use std::str::SplitWhitespace;

use super::{Filler, HistoryEnds, HistoryKey, HistoryOp, Move, Span, Write};

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

macro_rules! steps {
    ($($name:ident $word:literal ($($field:ident)*);)*) => {
        fn show_op(op: &HistoryOp) -> String {
            let mut out = String::new();
            match op {
                $(HistoryOp::$name { $($field),* } => {
                    out.push_str($word);
                    $($field.put(&mut out);)*
                })*
            }
            out
        }

        fn parse_op(word: &str, words: &mut SplitWhitespace<'_>) -> Result<HistoryOp, String> {
            // The fields are parsed in the order of this list.
            match word {
                $($word => {
                    $(let $field = Argument::take(words)?;)*
                    Ok(HistoryOp::$name { $($field),* })
                })*
                _ => Err("there is no such step".into()),
            }
        }
    };
}

steps! {
    Write "write" (tree write power);
    Batch "batch" (writes power);
    Sync "sync" ();
    Pop "pop" (tree back);
    InsertIfAbsent "insert_if_absent" (tree key value);
    Swap "swap" (tree key right value);
    Update "update" (tree key value);
    Clear "clear" (tree);
    Get "get" (tree key at);
    Edges "edges" (tree at);
    Contains "contains" (tree key at);
    MultiGet "multi_get" (tree keys);
    Scan "scan" (tree span ends limit at);
    Prefix "prefix" (tree prefix ends limit at);
    Walk "walk" (tree span moves at);
    FullScan "full_scan" (tree);
    OpenIter "open_iter" (slot tree span at);
    StepIter "step_iter" (slot front back);
    CloseIter "close_iter" (slot);
    OpenCursor "open_cursor" (slot tree span at);
    MoveCursor "move_cursor" (slot moves);
    CloseCursor "close_cursor" (slot);
    TakeSnapshot "snapshot" (slot named);
    DropSnapshot "drop_snapshot" (slot);
    Flush "flush" (tree);
    Compact "compact" (tree);
    CompactRange "compact_range" (tree from to);
    DropRange "drop_range" (tree from to);
    Ingest "ingest" (tree pairs);
    Export "export" (slot tree span);
    Import "import" (slot tree);
    Tables "tables" (tree);
    WaitIdle "wait_idle" ();
    Begin "begin" (slot);
    TxGet "tx_get" (slot tree key);
    TxScan "tx_scan" (slot tree span back limit);
    TxPut "tx_put" (slot tree key value);
    TxDelete "tx_delete" (slot tree key);
    TxDeleteRange "tx_delete_range" (slot tree span);
    Commit "commit" (slot power);
    Abort "abort" (slot);
    Retry "retry" (tree key value disturb);
    Reopen "reopen" ();
    Crash "crash" ();
    PowerCut "power_cut" (seed);
    Checkpoint "checkpoint" ();
    ReadOnly "read_only" ();
    CreateTree "create_tree" (tree);
    DropTree "drop_tree" (tree);
    ChangeOptions "change_options" (tree variant);
    Size "size" (tree from to);
    Stats "stats" ();
    Verify "verify" ();
    Advance "advance" (seconds);
    Refused "refused" (tree);
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

impl<T: Argument> Argument for Option<T> {
    fn put(&self, out: &mut String) {
        match self {
            None => out.push_str(" none"),
            Some(it) => {
                out.push_str(" some");
                it.put(out);
            }
        }
    }
    fn take(words: &mut SplitWhitespace<'_>) -> Result<Self, String> {
        match next(words)? {
            "none" => Ok(None),
            "some" => Ok(Some(T::take(words)?)),
            other => Err(format!("{other:?} is neither some nor none")),
        }
    }
}

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

impl Argument for Write {
    fn put(&self, out: &mut String) {
        let mut one = |word: &str, key: &HistoryKey| {
            out.push_str(word);
            key.put(out);
        };
        match self {
            Write::Put(k, _) => one(" put", k),
            Write::Delete(k) => one(" delete", k),
            Write::DeleteRange(span) => {
                out.push_str(" delete_range");
                span.put(out);
            }
            Write::Merge(k, _) => one(" merge", k),
        }
        match self {
            Write::Put(_, v) | Write::Merge(_, v) => v.put(out),
            Write::DeleteRange(_) | Write::Delete(_) => {}
        }
    }
    fn take(words: &mut SplitWhitespace<'_>) -> Result<Write, String> {
        let word = next(words)?;
        if word == "delete_range" {
            return Ok(Write::DeleteRange(Span::take(words)?));
        }
        let key = HistoryKey::take(words)?;
        match word {
            "put" => Ok(Write::Put(key, Filler::take(words)?)),
            "delete" => Ok(Write::Delete(key)),
            "merge" => Ok(Write::Merge(key, Filler::take(words)?)),
            _ => Err(format!("{word:?} is no write")),
        }
    }
}

impl Argument for Bound<HistoryKey> {
    fn put(&self, out: &mut String) {
        match self {
            Bound::Unbounded => out.push_str(" unbounded"),
            Bound::Included(k) => {
                out.push_str(" included");
                k.put(out);
            }
            Bound::Excluded(k) => {
                out.push_str(" excluded");
                k.put(out);
            }
        }
    }
    fn take(words: &mut SplitWhitespace<'_>) -> Result<Self, String> {
        match next(words)? {
            "unbounded" => Ok(Bound::Unbounded),
            "included" => Ok(Bound::Included(HistoryKey::take(words)?)),
            "excluded" => Ok(Bound::Excluded(HistoryKey::take(words)?)),
            other => Err(format!("{other:?} is no bound")),
        }
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

impl Argument for HistoryEnds {
    fn put(&self, out: &mut String) {
        match self {
            HistoryEnds::Front => out.push_str(" front"),
            HistoryEnds::Back => out.push_str(" back"),
            HistoryEnds::Both(seed) => {
                out.push_str(" both");
                seed.put(out);
            }
        }
    }
    fn take(words: &mut SplitWhitespace<'_>) -> Result<HistoryEnds, String> {
        match next(words)? {
            "front" => Ok(HistoryEnds::Front),
            "back" => Ok(HistoryEnds::Back),
            "both" => Ok(HistoryEnds::Both(u64::take(words)?)),
            other => Err(format!("{other:?} is none of front, back and both")),
        }
    }
}

impl Argument for Move {
    fn put(&self, out: &mut String) {
        out.push_str(match self {
            Move::First => " first",
            Move::Last => " last",
            Move::Seek(_) => " seek",
            Move::SeekBefore(_) => " seek_before",
            Move::Next => " next",
            Move::Prev => " prev",
        });
        if let Move::Seek(k) | Move::SeekBefore(k) = self {
            k.put(out);
        }
    }
    fn take(words: &mut SplitWhitespace<'_>) -> Result<Move, String> {
        match next(words)? {
            "first" => Ok(Move::First),
            "last" => Ok(Move::Last),
            "seek" => Ok(Move::Seek(HistoryKey::take(words)?)),
            "seek_before" => Ok(Move::SeekBefore(HistoryKey::take(words)?)),
            "next" => Ok(Move::Next),
            "prev" => Ok(Move::Prev),
            other => Err(format!("{other:?} is no move")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{History, LONGEST_KEY};
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
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
    fn what_is_no_script_is_refused_with_its_line() {
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
