//! A list of words that texts for people avoid: comments, documentation, help and messages.
//!
//! Invariants:
//! - W1: in Rust files, comments and string literals of several words are checked; code is not.
//!   In pages, code blocks and code spans are not.
//! - W2: the list holds words for which a standard term exists, and openings of sentences that hide
//!   the subject. `CONTRIBUTING.md` says what to write instead.

/// Words and phrases, in lower case, that are found between word boundaries.
const WORDS: [&str; 29] = [
    "a word of",
    "apart",
    "beneath",
    "comes to",
    "for whom",
    "given up",
    "goes over",
    "hands",
    "homeless",
    "kept",
    "lie",
    "lies",
    "mend",
    "mended",
    "of what",
    "settle",
    "settled",
    "so many",
    "so much",
    "stranger",
    "thing",
    "things",
    "told",
    "toll",
    "what is not",
    "what was",
    "who",
    "whoever",
    "wishes",
];

/// Words that may not begin a sentence.
const OPENINGS: [&str; 4] = ["Of ", "What ", "Who ", "Whoever "];

/// Phrases in which a word of the list is common English.
const FINE: [&str; 2] = ["apart from", "set apart"];

/// A use of the list: its line, from 1, and the word.
pub type WordUse = (usize, &'static str);

/// The uses in a page of Markdown.
pub fn in_page(text: &str) -> Vec<WordUse> {
    let (mut uses, mut is_code) = (vec![], false);
    for (i, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            in_prose(i + 1, line, &mut uses);
        }
    }
    uses
}

/// The uses in the comments and texts of a Rust file.
pub fn in_rust(text: &str) -> Vec<WordUse> {
    let mut uses = vec![];
    let (mut rest, mut line, mut is_code) = (text, 1, false);
    while let Some(c) = rest.chars().next() {
        let (len, prose) = match c {
            '/' if rest.starts_with("//") => {
                let len = rest.find('\n').unwrap_or(rest.len());
                let words = rest[..len].trim_start_matches(['/', '!']);
                is_code ^= words.trim_start().starts_with("```");
                (len, if is_code { "" } else { words })
            }
            'r' if rest.starts_with("r\"") || rest.starts_with("r#") => raw_string(rest),
            '"' => string(rest),
            '\'' => (character(rest), ""),
            // A name may end in r.
            c if c.is_alphanumeric() || c == '_' => {
                let is_name = |c: char| c.is_alphanumeric() || c == '_';
                let len = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                (if c == 'r' && len == 1 { 1 } else { len }, "")
            }
            c => (c.len_utf8(), ""),
        };
        for (i, l) in prose.lines().enumerate() {
            in_prose(line + i, l, &mut uses);
        }
        line += rest[..len].matches('\n').count();
        rest = &rest[len..];
    }
    uses
}

/// The length of a string literal, and what it says where it has several words.
fn string(rest: &str) -> (usize, &str) {
    let (mut escaped, mut len) = (false, rest.len());
    for (i, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => {
                len = i + 1;
                break;
            }
            _ => {}
        }
    }
    (len, text_of(rest.get(1..len - 1).unwrap_or_default()))
}

fn raw_string(rest: &str) -> (usize, &str) {
    let hashes = rest[1..].chars().take_while(|&c| c == '#').count();
    if !rest[1 + hashes..].starts_with('"') {
        return (1, "");
    }
    let (from, end) = (2 + hashes, format!("\"{}", "#".repeat(hashes)));
    let until = rest[from..].find(&end).map_or(rest.len(), |i| from + i);
    ((until + end.len()).min(rest.len()), text_of(&rest[from..until]))
}

fn text_of(literal: &str) -> &str {
    if literal.trim().split(' ').count() > 2 { literal } else { "" }
}

/// The length of a literal of a character, or of the mark of a lifetime.
fn character(rest: &str) -> usize {
    if let Some(escaped) = rest.strip_prefix("'\\") {
        return escaped.find('\'').map_or(1, |i| i + 3);
    }
    let mut chars = rest.char_indices().skip(2);
    chars.next().filter(|(_, c)| *c == '\'').map_or(1, |(i, _)| i + 1)
}

fn in_prose(line: usize, prose: &str, uses: &mut Vec<WordUse>) {
    // Code spans are names.
    let prose: String = prose.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let lower = prose.to_lowercase();
    for word in WORDS {
        for (at, _) in lower.match_indices(word) {
            let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            let is_word = !is_part(lower[..at].chars().next_back())
                && !is_part(lower[at + word.len()..].chars().next());
            let is_fine = FINE
                .iter()
                .any(|fine| lower.match_indices(fine).any(|(i, _)| i <= at && at < i + fine.len()));
            if is_word && !is_fine {
                uses.push((line, word));
            }
        }
    }
    let opening = prose.trim_start_matches([' ', '-', '*', '|', '>']);
    for word in OPENINGS {
        let begins = opening.starts_with(word) && !opening.trim_end().ends_with('?');
        let count = usize::from(begins) + prose.matches(&format!(". {word}")).count();
        uses.extend(std::iter::repeat_n((line, word.trim_end()), count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_texts_are_read_and_code_is_not() {
        let source = r###"
//! Who has told it. `told` is a name.
/// Set apart from others; it lies here.
fn told(lies: &'static str, c: char) -> bool {
    let c = '"'; // kept
    let text = "a thing that is said"; let short = "told";
    let raw = r#"so "many" so many"#;
    // ```
    // told
    // ```
    for_whom('\'', "x"); // Fine. Of these one.
}
"###;
        let uses = in_rust(source);
        assert_eq!(
            uses,
            [
                (2, "told"),
                (2, "who"),
                (2, "Who"),
                (3, "lies"),
                (5, "kept"),
                (6, "thing"),
                (7, "so many"),
                (11, "Of"),
            ]
        );
        assert_eq!(in_page("# Things\n```\ntold\n```\nWhat is this?\n"), [(1, "things")]);
    }
}
