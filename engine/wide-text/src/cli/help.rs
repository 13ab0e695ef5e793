//! Texts of `help`: a page for each statement, with an example. `help.txt` has the pages: after a
//! line `==== words` the syntax, a summary, details and an example, with `----` between them.

use std::fmt::Write as _;
use std::sync::LazyLock;

/// A help page.
#[derive(Debug, PartialEq, Eq)]
pub struct HelpPage {
    words: Vec<&'static str>,
    /// Syntax of the statement.
    pub form: &'static str,
    /// Summary, one line.
    pub summary: &'static str,
    /// Details; may be empty.
    pub more: &'static str,
    /// A valid example.
    pub example: &'static str,
}

/// All pages, in the order of the overview.
static PAGES: LazyLock<Vec<HelpPage>> = LazyLock::new(|| {
    let page = |text: &'static str| {
        let (words, text) = text.split_once('\n')?;
        let mut parts = text.split("\n----\n");
        Some(HelpPage {
            words: words.split(' ').collect(),
            form: parts.next()?,
            summary: parts.next()?,
            more: parts.next()?,
            example: parts.next()?.trim_end(),
        })
    };
    include_str!("help.txt").split("==== ").filter_map(page).collect()
});

/// A topic of the help.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CliTopic(&'static HelpPage);

impl std::fmt::Debug for CliTopic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.words().fmt(f)
    }
}

impl CliTopic {
    /// Returns every topic, in the order of the overview.
    pub fn all() -> impl Iterator<Item = CliTopic> {
        PAGES.iter().map(CliTopic)
    }

    /// Returns the words after `help` that select it.
    pub fn words(self) -> &'static [&'static str] {
        &self.0.words
    }

    /// Returns the page.
    pub fn page(self) -> &'static HelpPage {
        self.0
    }
}

/// Formats the overview, or the page of a topic. Ends with a newline.
pub fn help(topic: Option<CliTopic>) -> String {
    let mut out = String::new();
    let Some(CliTopic(page)) = topic else {
        out.push_str(
            "Statements end with ';' and may go over several lines. Ask about one of them with 'help <statement>;'.\n\n",
        );
        let width = PAGES.iter().map(|p| p.words.join(" ").len()).max().unwrap_or_default();
        for page in PAGES.iter() {
            let _ = writeln!(out, "  {:width$}  {}", page.words.join(" "), page.summary);
        }
        out.push_str("\nExample:\n  get users['ann'];\n");
        return out;
    };
    let _ = writeln!(out, "{}\n\n{}", page.form, page.summary);
    if !page.more.is_empty() {
        let _ = writeln!(out, "\n{}", page.more);
    }
    let _ = writeln!(out, "\nExample:\n  {}", page.example.replace('\n', "\n  "));
    out
}
