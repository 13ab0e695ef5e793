//! The applications of the source texts, described while they run: a blog with authors, posts, tags
//! and comments; a music site with likes and counters. The examples `bloggy` and `songs` and the
//! command `firn demo` print them.
//!
//! Invariant: on a new database the description is always the same text. Time UUIDs are made from
//! the times of the texts.

mod blog;
mod music;

pub use blog::{CONF, bloggy};
pub use music::{SCHEMA, songs};

/// A description being written.
#[derive(Default)]
struct DemoText(String);

impl DemoText {
    /// Adds a line, indented by four blanks for each level.
    fn line(&mut self, level: usize, text: impl AsRef<str>) {
        let text = text.as_ref();
        if !text.is_empty() {
            self.0.push_str(&"    ".repeat(level));
            self.0.push_str(text);
        }
        self.0.push('\n');
    }

    /// Adds a heading.
    fn part(&mut self, title: &str) {
        if !self.0.is_empty() {
            self.line(0, "");
        }
        self.line(0, title);
        self.line(0, "=".repeat(title.chars().count()));
    }
}
