//! Access of commands to the outside: files that a user names on the command line, standard input
//! and output, and a stopwatch. Stores are accessed only through the engine.
// The engine accesses files and clocks through its Env, so that tests can replace them. This module
// only accesses the user's files and the terminal, never parts of a store.
#![allow(clippy::disallowed_methods)]

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Read, StdoutLock, Write};
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

use firn_kv::OsEnv;

const BUFFER: usize = 64 << 10;

/// An input with its length, if known.
pub struct Input {
    source: Box<dyn Read>,
    /// Total bytes; `None` for a pipe.
    pub len: Option<u64>,
    read: Rc<Cell<u64>>,
}

impl Input {
    /// Opens `path`, or standard input for `-`.
    pub fn open(path: &Path) -> io::Result<Input> {
        let read = Rc::default();
        if path == Path::new("-") {
            return Ok(Input { source: Box::new(io::stdin().lock()), len: None, read });
        }
        let file = File::open(path)?;
        let meta = file.metadata()?;
        if meta.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
        }
        Ok(Input { source: Box::new(file), len: meta.is_file().then_some(meta.len()), read })
    }

    /// Returns a counter of the bytes read so far.
    pub fn counter(&self) -> Rc<Cell<u64>> {
        self.read.clone()
    }
}

impl Read for Input {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.source.read(buf)?;
        self.read.set(self.read.get() + n as u64);
        Ok(n)
    }
}

/// Returns buffered standard output.
pub fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::with_capacity(BUFFER, io::stdout().lock())
}

/// Reports whether standard output is a terminal.
pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Reports whether standard input is a terminal.
pub fn stdin_is_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Reports whether standard error is a terminal.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// A key of the terminal.
pub use console::Key;

/// Waits for a key, without a line end.
pub fn key() -> io::Result<Key> {
    console::Term::stdout().read_key_raw()
}

/// Prompts on standard error for a line that the terminal does not show.
pub fn secret(question: &str) -> io::Result<String> {
    let mut terminal = console::Term::stderr();
    terminal.write_all(question.as_bytes())?;
    terminal.read_secure_line()
}

/// Returns lines and columns of the terminal of standard output.
pub fn screen() -> (usize, usize) {
    let (lines, columns) = console::Term::stdout().size();
    (lines.into(), columns.into())
}

/// Asks a question on the terminal, and reports whether the answer is yes.
///
/// # Errors
/// Standard input cannot be read.
pub fn confirm(question: &str) -> io::Result<bool> {
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Opens a file of the user for reading.
///
/// # Errors
/// It is a directory; errors of the system.
pub fn open(path: &Path) -> io::Result<File> {
    if is_dir(path) {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
    }
    File::open(path)
}

/// Syncs a complete file of the user, and renames it to its final name. Replaces a file of that
/// name.
///
/// # Errors
/// Errors of the system.
pub fn finish_file(from: &Path, to: &Path) -> io::Result<()> {
    sync(from)?;
    fs::rename(from, to)
}

/// Creates a file of the user, replacing an existing one.
pub fn create(path: &Path) -> io::Result<impl Write + use<>> {
    Ok(BufWriter::with_capacity(BUFFER, File::create(path)?))
}

/// Opens a file of the user for appending.
pub fn append(path: &Path) -> io::Result<impl Write + use<>> {
    Ok(BufWriter::with_capacity(BUFFER, File::options().create(true).append(true).open(path)?))
}

/// Writes a small file at once.
pub fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::write(path, content)
}

/// Writes a small file whose name the user did not choose. It does not follow links of that name.
pub fn write_own(path: &Path, content: &[u8]) -> firn_kv::Result<()> {
    OsEnv::new().create(path)?.append(content)
}

/// Replaces a small file atomically: readers see the old or the new contents.
pub fn replace(path: &Path, content: &[u8]) -> firn_kv::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    write_own(&new, content)?;
    OsEnv::new().rename(&new, path)
}

/// Removes a file; ignores a missing one.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Removes an empty directory.
pub fn remove_dir(path: &Path) -> io::Result<()> {
    fs::remove_dir(path)
}

/// Creates a directory and its missing parents.
pub fn make_dirs(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Removes a directory with its contents; ignores a missing one.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Renames a directory to its final name, which must be free or an empty directory. It syncs the
/// contents first, so a reader finds them complete.
pub fn put_in_place(from: &Path, to: &Path) -> io::Result<()> {
    sync_tree(from)?;
    if is_dir(to) {
        remove_dir(to)?;
    }
    fs::rename(from, to)?;
    let above = to.parent().filter(|p| !p.as_os_str().is_empty());
    sync(above.unwrap_or(Path::new(".")))
}

fn sync_tree(path: &Path) -> io::Result<()> {
    for name in list(path)? {
        let inside = path.join(name);
        if is_dir(&inside) { sync_tree(&inside)? } else { sync(&inside)? }
    }
    sync(path)
}

/// Syncs a file or directory; on Windows directories need no sync.
fn sync(path: &Path) -> io::Result<()> {
    if cfg!(windows) && is_dir(path) {
        return Ok(());
    }
    File::open(path)?.sync_all()
}

/// Returns the names in a directory, sorted; none if it is missing.
pub fn list(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        other => other?,
    };
    let names: io::Result<Vec<String>> =
        entries.map(|e| Ok(e?.file_name().to_string_lossy().into_owned())).collect();
    names.map(|mut n| {
        n.sort();
        n
    })
}

/// Reports whether a path is a directory, following links.
pub fn is_dir(path: &Path) -> bool {
    path.is_dir()
}

/// Reports whether a path is a file, following links.
pub fn is_file(path: &Path) -> bool {
    path.is_file()
}

/// Reports whether a path exists, following links.
pub fn exists(path: &Path) -> bool {
    path.exists()
}

/// Describes a path that is not a file. Returns `None` for a file, for a link to a file, and for a
/// missing path.
pub fn not_a_file(path: &Path) -> Option<&'static str> {
    let own = path.symlink_metadata().ok()?.file_type();
    let leads_to = fs::metadata(path).map(|m| m.file_type());
    match leads_to {
        Ok(found) if found.is_file() => None,
        Ok(_) if own.is_symlink() => Some("a link to a non-file"),
        Ok(found) if found.is_dir() => Some("a directory"),
        Ok(found) => Some(special(&found)),
        Err(e) if own.is_symlink() && e.kind() == io::ErrorKind::NotFound => {
            Some("a link that leads nowhere")
        }
        Err(_) if own.is_symlink() => Some("a link that cannot be followed"),
        Err(_) => None,
    }
}

#[cfg(unix)]
fn special(kind: &fs::FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match () {
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    }
}

#[cfg(not(unix))]
fn special(_: &fs::FileType) -> &'static str {
    "no regular file"
}

/// Reports whether a name is taken, even by a dangling link.
pub fn is_taken(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// A stopwatch.
#[derive(Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts the stopwatch.
    pub fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    /// Returns the seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    /// Returns the nanoseconds since the start.
    pub fn nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
