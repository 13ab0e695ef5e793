//! One page, complete in one file: the levels of a tree over time, which can be scrubbed and
//! played, the rate, and the numbers of it all.

use serde::Serialize;
use serde_json::json;

const TEMPLATE: &str = include_str!("page.html");

/// More frames than these nobody looks at.
const MOST_FRAMES: usize = 360;

/// One moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PageFrame {
    /// Seconds since the beginning.
    pub t: f64,
    /// Operations so far.
    pub ops: u64,
    /// Nanoseconds within which 99 % of the operations since the frame before were done, where that
    /// was measured.
    pub p99: Option<u64>,
    /// Bytes flushed and merged so far.
    pub written: [u64; 2],
    /// What was done last.
    pub did: String,
    /// The runs, newest first.
    pub runs: Vec<DrawnRun>,
}

/// A run: level, bytes, tables, and bars (from and to in thousandths of the key space, 1 when a job
/// holds it).
pub type DrawnRun = (u8, u64, usize, Vec<[u16; 3]>);

/// Frames, of which the more are left out the longer it takes.
#[derive(Clone, Debug, Default)]
pub struct Film {
    frames: Vec<PageFrame>,
    /// One frame in so many is kept, as a power of two.
    shift: u32,
    seen: u64,
}

impl Film {
    /// Takes in a frame, or not.
    ///
    /// # Errors
    /// Those of making it.
    pub fn add<E>(&mut self, frame: impl FnOnce() -> Result<PageFrame, E>) -> Result<(), E> {
        self.seen += 1;
        if !self.seen.is_multiple_of(1 << self.shift) {
            return Ok(());
        }
        self.frames.push(frame()?);
        if self.frames.len() > MOST_FRAMES {
            let mut i = 0;
            self.frames.retain(|_| {
                i += 1;
                i % 2 == 0
            });
            self.shift += 1;
        }
        Ok(())
    }

    /// What was kept.
    pub fn into_frames(self) -> Vec<PageFrame> {
        self.frames
    }
}

/// The page: a table of numbers, with its head, and the frames of each case by its name. Cases
/// without frames have numbers only.
pub fn page(
    title: &str,
    head: &[&str],
    rows: &[Vec<String>],
    cases: &[(String, Vec<PageFrame>)],
) -> String {
    let cases: Vec<_> =
        cases.iter().map(|(case, frames)| json!({"case": case, "frames": frames})).collect();
    let data = json!({"title": title, "head": head, "rows": rows, "cases": cases});
    // Inside a script element only a "</" could end it early.
    TEMPLATE.replace("/*DATA*/null", &data.to_string().replace("</", "<\\/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_holds_its_data_and_nothing_from_elsewhere() {
        let frame = PageFrame {
            t: 1.0,
            ops: 2,
            written: [3, 4],
            did: "</script>".into(),
            runs: vec![(0, 5, 1, vec![[0, 999, 1]])],
            p99: None,
        };
        let page = page("what", &["case"], &[vec!["a".into()]], &[("a".into(), vec![frame])]);
        assert!(
            page.contains("\"frames\":[{")
                && page.contains("\"title\":\"what\"")
                && !page.contains("/*DATA*/")
        );
        assert_eq!(page.matches("</script>").count(), 1);
        assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="));
    }

    #[test]
    fn a_film_stays_short_and_reaches_its_end() {
        let mut film = Film::default();
        for ops in 1..=10_000 {
            film.add(|| Ok::<_, ()>(PageFrame { ops, ..PageFrame::default() })).unwrap();
        }
        let frames = film.into_frames();
        assert!((MOST_FRAMES / 2 - 1..=MOST_FRAMES).contains(&frames.len()), "{}", frames.len());
        assert!(frames.is_sorted_by_key(|f| f.ops) && frames.last().unwrap().ops > 9_900);
    }
}
