//! Syntax errors with position, found and expected tokens, and hints.

use std::fmt;

use super::limits::MAX_LENGTH;

/// Maximum number of characters shown of a source line on each side of the error.
const CONTEXT: usize = 60;

/// A text that is not valid CQL.
///
/// `Display` is one line. For errors for which Cassandra's grammar has a message (`Multiple
/// incompatible setting of column l`), it is exactly that message. Otherwise it begins with `line
/// 1:10`. [`pretty`](SyntaxError::pretty) also shows the source line, the position and a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyntaxError {
    /// Line, starting at 1.
    pub line: u32,
    /// Character in the line, starting at 1.
    pub column: u32,
    /// Offset in bytes.
    pub offset: usize,
    /// Description of the token that was found.
    pub met: String,
    /// Descriptions of the expected tokens; empty if the error is not about tokens.
    pub expected: Vec<String>,
    /// Message, if the error is not only an unexpected token.
    pub message: Option<String>,
    /// Hint on how to correct the error, if there is one.
    pub hint: Option<String>,
    /// Source line, or the part of it near the error.
    excerpt: String,
    /// Number of characters of the excerpt before the error, and in the error.
    marked: (usize, usize),
}

impl SyntaxError {
    /// Creates an error at the bytes `start..end` of `text`.
    pub(crate) fn at(text: &str, start: usize, end: usize) -> SyntaxError {
        let line_start = text[..start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |i| start + i);
        let before = &text[line_start..start];
        let skipped = before.char_indices().rev().nth(CONTEXT - 1).map_or(0, |(i, _)| i);
        let after = &text[start..line_end];
        let shown = after.char_indices().nth(CONTEXT).map_or(after.len(), |(i, _)| i);
        let width = text[start..end.clamp(start, start + shown)].chars().count().max(1);
        let mut excerpt: String = [&before[skipped..], &after[..shown]].concat();
        // A tab or another control character would shift the mark.
        excerpt = excerpt.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        SyntaxError {
            line: text[..start].matches('\n').count() as u32 + 1,
            column: before.chars().count() as u32 + 1,
            offset: start,
            met: String::new(),
            expected: Vec::new(),
            message: None,
            hint: None,
            marked: (before[skipped..].chars().count(), width),
            excerpt: excerpt.trim_end().to_owned(),
        }
    }

    /// Creates an error at the bytes `start..end` of `text` with this message, for errors found
    /// after parsing.
    #[doc(hidden)]
    pub fn about(text: &str, start: usize, end: usize, message: impl Into<String>) -> SyntaxError {
        SyntaxError { message: Some(message.into()), ..SyntaxError::at(text, start, end) }
    }

    pub(crate) fn not_utf8(bytes: &[u8], at: usize) -> SyntaxError {
        let sound = String::from_utf8_lossy(&bytes[..at]);
        let mut error = SyntaxError::at(&sound, sound.len(), sound.len());
        error.met = format!("byte 0x{:02x}", bytes.get(at).copied().unwrap_or(0));
        error.message = Some(format!("{} is not UTF-8", error.met));
        error.hint =
            Some("statements are UTF-8 text; bytes are written as a blob constant, 0x…".to_owned());
        error
    }

    pub(crate) fn too_long(len: usize) -> SyntaxError {
        let mut error = SyntaxError::at("", 0, 0);
        error.message = Some(format!("the text has {len} bytes, the limit is {MAX_LENGTH}"));
        error
    }

    /// Returns the error for people: message, source line with the position marked, and hint. The
    /// result has several lines, without a final line end.
    pub fn pretty(&self) -> String {
        let mut out = match self.message {
            Some(_) => format!("line {}:{} {self}", self.line, self.column),
            None => self.to_string(),
        };
        if !self.excerpt.is_empty() {
            let (before, width) = self.marked;
            out.push_str(&format!(
                "\n  {}\n  {}{}",
                self.excerpt,
                " ".repeat(before),
                "^".repeat(width)
            ));
        }
        if let Some(hint) = &self.hint {
            out.push_str(&format!("\nhint: {hint}"));
        }
        out
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(message) = &self.message {
            return f.write_str(message);
        }
        write!(f, "line {}:{} met {}", self.line, self.column, self.met)?;
        if let Some((last, others)) = self.expected.split_last() {
            write!(
                f,
                ", expected {}{}{last}",
                others.join(", "),
                if others.is_empty() { "" } else { " or " }
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for SyntaxError {}
