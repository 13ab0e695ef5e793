//! A self-contained HTML page: the runs of trees over time, side by side, with a time slider and
//! playback; space, writes and stalls on one axis below; and a table of numbers.
//!
//! It loads nothing from elsewhere, and its content security policy forbids it.

use serde::Serialize;
use serde_json::json;

/// Escapes text for HTML.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const TEMPLATE: &str = include_str!("page.html");

/// Maximum number of frames.
const MOST_FRAMES: usize = 360;
/// Maximum number of rows in a frame: with more runs, neighbours share a row.
const MOST_ROWS: usize = 96;
/// Maximum number of bars in a run.
const MOST_BARS: usize = 64;

/// State at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PageFrame {
    /// Seconds since the start.
    pub t: f64,
    /// Operations so far.
    pub ops: u64,
    /// 99th percentile latency of the operations since the previous frame in nanoseconds, if
    /// measured.
    pub p99: Option<u64>,
    /// Bytes flushed and compacted so far.
    pub written: [u64; 2],
    /// Seconds of slowdown and of stall so far.
    pub held: [f64; 2],
    /// Maximum bytes since the previous frame, including unfinished outputs of jobs.
    pub peak: u64,
    /// Bytes of one copy of the live data, if known.
    pub live: Option<f64>,
    /// The last activity.
    pub did: String,
    /// The runs, newest first.
    pub runs: Vec<DrawnRun>,
}

/// A run in the drawing, or neighbouring runs of one level drawn as one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DrawnRun {
    /// Its level.
    pub level: u8,
    /// Bytes of its tables.
    pub bytes: u64,
    /// Its tables.
    pub tables: usize,
    /// Number of runs that it represents.
    pub runs: usize,
    /// Start and end in thousandths of the key space, and 1 while a job uses it.
    pub bars: Vec<[u16; 3]>,
}

impl DrawnRun {
    /// Creates a run from its tables in key order: bytes, and the bar of each.
    pub fn new(level: u8, tables: impl ExactSizeIterator<Item = (u64, [u16; 3])>) -> DrawnRun {
        let count = tables.len();
        let per_bar = count.div_ceil(MOST_BARS).max(1);
        let mut run = DrawnRun { level, tables: count, runs: 1, ..DrawnRun::default() };
        for (i, (bytes, [from, to, busy])) in tables.enumerate() {
            run.bytes = run.bytes.saturating_add(bytes);
            match run.bars.last_mut().filter(|_| !i.is_multiple_of(per_bar)) {
                Some(bar) => *bar = [bar[0], to.max(bar[1]), busy.max(bar[2])],
                None => run.bars.push([from, to, busy]),
            }
        }
        run
    }

    fn join(&mut self, older: DrawnRun) {
        self.bytes = self.bytes.saturating_add(older.bytes);
        self.tables += older.tables;
        self.runs += older.runs;
        self.bars.extend(older.bars);
        self.bars.sort_unstable();
        // Merge touching bars, so that a row has no invisible ones.
        self.bars.dedup_by(|b, a| {
            let one = a[2] == b[2] && b[0] <= a[1];
            if one {
                a[1] = a[1].max(b[1]);
            }
            one
        });
    }

    /// Returns the runs of a tree with these tables: newest run first, each in key order.
    ///
    /// Key heads are numbers that often are close together: the bars are positions between the
    /// first and the last.
    pub fn of_tables(tables: &[DrawnTable]) -> Vec<DrawnRun> {
        let first = tables.iter().map(|t| t.heads.0).min().unwrap_or(0);
        let last = tables.iter().map(|t| t.heads.1).max().unwrap_or(0);
        let width = u128::from(last.saturating_sub(first).max(1));
        let thousandth =
            |head: u64| (u128::from(head.saturating_sub(first)) * 1000 / width).min(1000) as u16;
        let bar = |t: &DrawnTable| (t.bytes, [thousandth(t.heads.0), thousandth(t.heads.1), 0]);
        tables
            .chunk_by(|a, b| (a.level, a.run) == (b.level, b.run))
            .map(|run| DrawnRun::new(run[0].level, run.iter().map(bar)))
            .collect()
    }
}

/// A table of a store, as drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrawnTable {
    /// Level of its run.
    pub level: u8,
    /// Number of its run.
    pub run: u64,
    /// Its bytes.
    pub bytes: u64,
    /// The heads of its first and last key, as numbers.
    pub heads: (u64, u64),
}

/// Merges runs down to the maximum number of rows.
fn few(runs: Vec<DrawnRun>) -> Vec<DrawnRun> {
    let together = runs.len().div_ceil(MOST_ROWS);
    let mut rows: Vec<DrawnRun> = vec![];
    for run in runs {
        match rows.last_mut().filter(|r| r.level == run.level && r.runs < together) {
            Some(row) => row.join(run),
            None => rows.push(run),
        }
    }
    rows
}

/// Recorded frames, thinned out as time passes. The maxima of an omitted frame are carried to the
/// next recorded one.
#[derive(Clone, Debug, Default)]
pub struct Film {
    frames: Vec<PageFrame>,
    /// Base 2 logarithm of the recording interval, in frames.
    shift: u32,
    seen: u64,
    peak: u64,
}

impl Film {
    /// Notes the current bytes, including unfinished outputs of jobs.
    pub fn note_bytes(&mut self, bytes: u64) {
        self.peak = self.peak.max(bytes);
    }

    /// Records a frame, or skips it.
    ///
    /// # Errors
    /// Errors of creating it.
    pub fn add<E>(&mut self, frame: impl FnOnce() -> Result<PageFrame, E>) -> Result<(), E> {
        self.seen += 1;
        if !self.seen.is_multiple_of(1 << self.shift) {
            return Ok(());
        }
        let mut frame = frame()?;
        frame.runs = few(frame.runs);
        let held = frame.runs.iter().fold(0u64, |sum, r| sum.saturating_add(r.bytes));
        frame.peak = frame.peak.max(held).max(std::mem::take(&mut self.peak));
        self.frames.push(frame);
        if self.frames.len() > MOST_FRAMES {
            let mut before = None;
            self.frames.retain_mut(|f| match before.take() {
                None => {
                    before = Some(f.peak);
                    false
                }
                Some(peak) => {
                    f.peak = f.peak.max(peak);
                    true
                }
            });
            // The last of an odd number has no successor.
            self.peak = self.peak.max(before.unwrap_or(0));
            self.shift += 1;
        }
        Ok(())
    }

    /// Returns the frames recorded so far.
    pub fn frames(&self) -> &[PageFrame] {
        &self.frames
    }

    /// Returns the recorded frames.
    pub fn into_frames(self) -> Vec<PageFrame> {
        self.frames
    }
}

/// Contents of a page.
#[derive(Clone, Copy, Debug, Default)]
pub struct FilmPage<'a> {
    /// Title.
    pub title: &'a str,
    /// Description of the run: a sentence.
    pub about: &'a str,
    /// Unit of `ops` of a frame, such as "operations".
    pub work: &'a str,
    /// Columns of the table, with explanations.
    pub head: &'a [(&'a str, &'a str)],
    /// Rows of the table.
    pub rows: &'a [Vec<String>],
    /// The frames of each case by name. A case without frames has numbers only.
    pub cases: &'a [(&'a str, &'a [PageFrame])],
    /// Whether the cases ran concurrently: then their axis is time instead of operations.
    pub at_once: bool,
}

impl FilmPage<'_> {
    /// Returns the page as HTML.
    pub fn html(&self) -> String {
        let cases: Vec<_> = self
            .cases
            .iter()
            .map(|(case, frames)| json!({"case": case, "frames": frames}))
            .collect();
        let data = json!({
            "title": self.title,
            "about": self.about,
            "work": self.work,
            "head": self.head,
            "rows": self.rows,
            "cases": cases,
            "at_once": self.at_once,
        });
        // Inside a script element a "</" could end it early, and a "<!--" hide its end.
        TEMPLATE.replace("/*DATA*/null", &data.to_string().replace('<', "\\u003c"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(level: u8, bytes: u64) -> DrawnRun {
        DrawnRun::new(level, [(bytes, [0, 999, 1])].into_iter())
    }

    #[test]
    fn the_page_is_self_contained() {
        let frame = PageFrame {
            t: 1.0,
            ops: 2,
            did: "</script><!--".into(),
            runs: vec![run(0, 5)],
            ..PageFrame::default()
        };
        let page = FilmPage {
            title: "what",
            head: &[("case", "which")],
            rows: &[vec!["a".into()]],
            cases: &[("a", &[frame])],
            ..FilmPage::default()
        }
        .html();
        assert!(
            page.contains("\"frames\":[{")
                && page.contains("\"title\":\"what\"")
                && !page.contains("/*DATA*/")
        );
        assert_eq!(page.matches("</script>").count(), 1);
        assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="));
    }

    #[test]
    fn a_film_stays_short_reaches_its_end_and_keeps_what_was_the_most() {
        for high in [1, 4_321, 9_999, 10_000] {
            let mut film = Film::default();
            for ops in 1..=10_000 {
                film.note_bytes(if ops == high { 1000 } else { 10 });
                film.add(|| Ok::<_, ()>(PageFrame { ops, ..PageFrame::default() })).unwrap();
            }
            // A further recorded frame has the maxima since the last one.
            for ops in 10_001..=10_064 {
                film.add(|| Ok::<_, ()>(PageFrame { ops, ..PageFrame::default() })).unwrap();
            }
            let frames = film.into_frames();
            assert!(
                (MOST_FRAMES / 2 - 1..=MOST_FRAMES).contains(&frames.len()),
                "{}",
                frames.len()
            );
            assert!(frames.is_sorted_by_key(|f| f.ops) && frames.last().unwrap().ops > 9_900);
            let tops: Vec<u64> = frames.iter().filter(|f| f.peak == 1000).map(|f| f.ops).collect();
            assert!(tops.len() == 1 && (high..high + 64).contains(&tops[0]), "{high}: {tops:?}");
        }
    }

    #[test]
    fn many_runs_and_tables_are_few_rows_and_bars_and_lose_no_byte() {
        let tables = (0..1000u16).map(|i| (3, [i, i, u16::from(i == 500)]));
        let wide = DrawnRun::new(4, tables);
        assert_eq!((wide.bytes, wide.tables, wide.runs), (3000, 1000, 1));
        assert!(
            wide.bars.len() <= MOST_BARS && wide.bars.iter().filter(|b| b[2] == 1).count() == 1
        );
        assert_eq!((wide.bars[0][0], wide.bars[wide.bars.len() - 1][1]), (0, 999));
        let runs: Vec<_> = (0..1000).map(|i| run(u8::from(i >= 700), 7)).collect();
        let rows = few(runs);
        assert!(rows.len() <= MOST_ROWS + 2, "{} rows", rows.len());
        assert_eq!(rows.iter().map(|r| r.bytes).sum::<u64>(), 7000);
        assert_eq!(rows.iter().filter(|r| r.level == 0).map(|r| r.runs).sum::<usize>(), 700);
        assert_eq!(few(vec![run(0, 1), run(0, 2)]).len(), 2);
    }
}
