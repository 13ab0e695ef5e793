//! The applications that the source texts design, told while they run: a blog with authors, posts,
//! tags and comments; a music site with likes and counters. The examples `bloggy` and `songs` and
//! the command `firn demo` print them.
//!
//! Invariant: a story told to a new database is always the same text. Names that are times are made
//! from the times of the texts.

mod blog;
mod music;

pub use blog::{CONF, bloggy};
pub use music::{SCHEMA, songs};

/// A text in the making.
#[derive(Default)]
struct Story(String);

impl Story {
    /// A line, indented by four blanks for each level.
    fn line(&mut self, level: usize, text: impl AsRef<str>) {
        let text = text.as_ref();
        if !text.is_empty() {
            self.0.push_str(&"    ".repeat(level));
            self.0.push_str(text);
        }
        self.0.push('\n');
    }

    /// A heading.
    fn part(&mut self, title: &str) {
        if !self.0.is_empty() {
            self.line(0, "");
        }
        self.line(0, title);
        self.line(0, "=".repeat(title.chars().count()));
    }
}
