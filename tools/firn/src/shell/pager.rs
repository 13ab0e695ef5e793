//! Prints a shell's output a screen at a time: through the program that `PAGER` names, or with its
//! own pager.
//!
//! Invariant: after the user quits the pager, and after Ctrl-C, writes fail with `BrokenPipe`.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::process::{Child, Command, Stdio};

use firn_tools::io::{Key, key, screen, stdout};
use unicode_width::UnicodeWidthStr;

use crate::shell::interrupt;

/// Printer to a terminal.
pub struct Pager {
    to: To,
    has_quit: bool,
}

enum To {
    /// Number of lines until it asks.
    Screen {
        out: BufWriter<StdoutLock<'static>>,
        lines_left: usize,
        column: usize,
    },
    Program(Child),
}

fn enough() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "enough was read")
}

impl Pager {
    /// Creates the pager for one statement.
    pub fn new() -> Pager {
        let program = std::env::var("PAGER").ok().filter(|p| !p.trim().is_empty());
        let to = program.and_then(|p| begin(&p)).map_or_else(Pager::own, To::Program);
        Pager { to, has_quit: false }
    }

    fn own() -> To {
        To::Screen { out: stdout(), lines_left: page(), column: 0 }
    }

    /// Reports whether the user has quit the pager.
    pub fn has_quit(&self) -> bool {
        self.has_quit
    }

    /// Waits for a key when the screen is full.
    fn ask(&mut self) -> io::Result<()> {
        let To::Screen { out, lines_left, .. } = &mut self.to else { return Ok(()) };
        out.write_all(b"\x1b[7m--More--\x1b[0m")?;
        out.flush()?;
        let more = loop {
            match key()? {
                Key::Char(' ' | 'f') | Key::PageDown => break page(),
                Key::Enter | Key::Char('j') | Key::ArrowDown => break 1,
                Key::Char('q' | 'Q') | Key::Escape => break 0,
                Key::CtrlC => {
                    interrupt::set();
                    break 0;
                }
                _ => {}
            }
        };
        out.write_all(b"\r\x1b[K")?;
        out.flush()?;
        *lines_left = more;
        self.has_quit = more == 0;
        if self.has_quit { Err(enough()) } else { Ok(()) }
    }

    /// Waits until the user has read the last line.
    ///
    /// # Errors
    /// Errors of the terminal, and of waiting for the program.
    pub fn end(mut self) -> io::Result<()> {
        match &mut self.to {
            To::Screen { out, .. } => out.flush(),
            To::Program(child) => {
                drop(child.stdin.take());
                child.wait().map(drop)
            }
        }
    }
}

/// Prints a text, a screen at a time.
pub fn show(text: &str) -> io::Result<()> {
    let mut pager = Pager::new();
    let written = pager.write_all(text.as_bytes());
    let has_quit = pager.has_quit();
    pager.end()?;
    if has_quit { Ok(()) } else { written }
}

/// Returns the lines of a screen, without the prompt line.
fn page() -> usize {
    screen().0.saturating_sub(1).max(1)
}

/// Starts the program of `PAGER`; `None` if this fails.
fn begin(program: &str) -> Option<Child> {
    let mut command = match cfg!(windows) {
        true => Command::new("cmd"),
        false => Command::new("sh"),
    };
    command.args([if cfg!(windows) { "/C" } else { "-c" }, program]).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        // With FRX it exits if one screen is enough, and leaves the text on the screen.
        command.env("LESS", "FRX");
    }
    command.spawn().inspect_err(|e| eprintln!("cannot run the pager {program:?}: {e}")).ok()
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.has_quit || interrupt::is_set() {
            self.has_quit = true;
            return Err(enough());
        }
        if let To::Program(child) = &mut self.to {
            let written =
                child.stdin.as_mut().ok_or_else(enough).and_then(|stdin| stdin.write(bytes));
            self.has_quit = written.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::BrokenPipe);
            return written;
        }
        if matches!(self.to, To::Screen { lines_left: 0, .. }) {
            self.ask()?;
        }
        let To::Screen { out, lines_left, column } = &mut self.to else { return Err(enough()) };
        if bytes.is_empty() {
            return Ok(0);
        }
        // Writes at most one line: the next one may have to wait.
        let end = bytes.iter().position(|b| *b == b'\n').map_or(bytes.len(), |at| at + 1);
        out.write_all(&bytes[..end])?;
        *column += String::from_utf8_lossy(&bytes[..end]).trim_end().width();
        if bytes[end - 1] == b'\n' {
            let lines = column.div_ceil(screen().1.max(1)).max(1);
            *lines_left = lines_left.saturating_sub(lines);
            *column = 0;
        }
        Ok(end)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Screen { out, .. } => out.flush(),
            To::Program(child) => {
                child.stdin.as_mut().map_or(Ok(()), |stdin| match stdin.flush() {
                    Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                    other => other,
                })
            }
        }
    }
}
