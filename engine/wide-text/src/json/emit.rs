//! Streaming writer of strict JSON: one member a line, indented by depth.

use std::io::{self, Write};

use crate::text::JsonText;

/// JSON writer. The caller balances opened and closed containers.
pub struct Emit<W: Write> {
    out: W,
    line: Vec<u8>,
    depth: usize,
    /// Whether the innermost open container has a member.
    filled: bool,
}

impl<W: Write> std::fmt::Debug for Emit<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emit").field("depth", &self.depth).finish_non_exhaustive()
    }
}

impl<W: Write> Emit<W> {
    /// Creates a writer.
    pub fn new(out: W) -> Emit<W> {
        Emit { out, line: vec![], depth: 0, filled: false }
    }

    fn pass_on(&mut self) -> io::Result<()> {
        if self.line.len() >= 32 << 10 {
            self.out.write_all(&self.line)?;
            self.line.clear();
        }
        Ok(())
    }

    fn new_line(&mut self) {
        self.line.push(b'\n');
        self.line.resize(self.line.len() + 2 * self.depth, b' ');
    }

    /// Begins a member of the innermost container, on its own line.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn member(&mut self) -> io::Result<()> {
        self.pass_on()?;
        if self.filled {
            self.line.push(b',');
        }
        if self.depth > 0 {
            self.new_line();
        }
        self.filled = true;
        Ok(())
    }

    /// Begins a named member.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn named(&mut self, name: &str) -> io::Result<()> {
        self.member()?;
        self.quote(name)?;
        self.line.extend_from_slice(b": ");
        Ok(())
    }

    /// Opens a container: `{` or `[`.
    pub fn open(&mut self, bracket: u8) {
        self.line.push(bracket);
        self.depth += 1;
        self.filled = false;
    }

    /// Closes the innermost container: `}` or `]`.
    pub fn close(&mut self, bracket: u8) {
        self.depth -= 1;
        if self.filled {
            self.new_line();
        }
        self.line.push(bracket);
        self.filled = true;
    }

    /// Writes JSON as is.
    pub fn raw(&mut self, json: &str) {
        self.line.extend_from_slice(json.as_bytes());
    }

    /// Writes a string.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn quote(&mut self, text: &str) -> io::Result<()> {
        Ok(serde_json::to_writer(&mut self.line, text)?)
    }

    /// Writes a value.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn value(&mut self, shown: &JsonText<'_>) -> io::Result<()> {
        if shown.bare {
            self.raw(&shown.text);
            return Ok(());
        }
        self.quote(&shown.text)
    }

    /// Writes the buffered rest.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn finish(mut self) -> io::Result<()> {
        self.line.push(b'\n');
        self.out.write_all(&self.line)?;
        self.out.flush()
    }
}
