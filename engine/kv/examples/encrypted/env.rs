//! Encryption at rest, as a layer between the engine and its files. This [`Env`] forwards every
//! call to another one and encrypts the contents of files. Copy it and change it. The model test of
//! the engine also runs over it.
//!
//! There are two kinds of files. Each file has a header of 64 bytes: magic, kind, 24 random bytes
//! that no other file has, and a tag that detects a wrong key.
//! - **Log segments** are written at any offset, also after a crash that tore the last write. So
//!   the layer may write only the new bytes. It uses XChaCha20 as a stream, byte for byte at the
//!   same offset, with the random bytes of the header as nonce. A recycled segment first gets new
//!   random bytes. A segment that is rewritten unchanged ([`Env::rewrite_log`]) retains them: the
//!   engine writes there the bytes that it has read, and nothing after them.
//! - **All other files** (tables, manifests, `CURRENT`, events, exports) consist of slots of 4,096
//!   bytes. XChaCha20-Poly1305 seals each slot with its own random nonce. A slot states in
//!   plaintext where its content begins and how long it is. The tag covers these two numbers, the
//!   slot's number and the random bytes of the header. So slots cannot be exchanged, within a file
//!   or among files. An early sync leaves a short slot, and the next slot begins after it.
//!
//! No two plaintexts share a key stream. This needs no record of earlier writes, which could be
//! wrong. A file that is appended to may have lost its end (a power cut, an attacker). It may be
//! one of two copies of a store that are both continued, or be open in a child of `fork()`. An
//! observer of two copies of a store learns which slots and which parts of the log are unchanged,
//! and no more. This relies on [`Env::random`], which asks the operating system.
//!
//! The content of a slot that fails authentication reads as zeros. The engine's own checksums cover
//! every byte that it relies on. They report which block of which file is damaged, and distinguish
//! damage from a tail that a power cut tore.
//!
//! The layer does not hide or prevent the following:
//! - It shows the names, number and lengths of files, the times of writes, and where in the log
//!   each write begins and ends.
//! - An attacker with write access to the disk can restore an older state of a whole file, or cut
//!   slots
//!   off its end. The engine detects this for tables.
//! - The event log and manifests are appended to later. There an attacker can restore single slots,
//!   also from another copy. For a manifest, the engine detects this if the log has segments with
//!   records of writers that the manifest does not know.
//! - An attacker can flip bits of the log, because its records have a checksum but no secret tag.
//! - If the blocks of a log cannot be reserved, a full disk can cut off a record, and the next one
//!   overwrites it. An attacker with a copy from before has two texts of one key stream.
//! - The key is in memory as long as the store is open.
//!
//! Files are not mapped. Tables are read and decrypted one slot at a time, and decoded blocks are
//! in the engine's cache. Appended bytes are certain to be in the underlying file only after a
//! sync. The engine relies on nothing more.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chacha20::XChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use chacha20poly1305::aead::{AeadInPlace, KeyInit};
use chacha20poly1305::{Tag, XChaCha20Poly1305, XNonce};
use firn_kv::Env;
use firn_kv::fs::{FileLock, FileMap, LogFile, ReadFile, Thread, WriteFile};
use firn_kv::{Error, ErrorKind, Result};

const HEADER: u64 = 64;
const MAGIC: &[u8; 8] = b"firnenc1";
const SLOT: u64 = 4096;
/// Length in bytes of a slot's start, length, nonce and tag.
const SLOT_HEADER: usize = 56;
/// Maximum length in bytes of a slot's content.
const CHUNK: u64 = SLOT - SLOT_HEADER as u64;

type Header = [u8; HEADER as usize];
/// Random bytes of a file's header, unique to the file.
type Id = [u8; 24];

/// An environment whose files are encrypted. See the module documentation.
pub struct Encrypted {
    inner: Arc<dyn Env>,
    keys: Arc<Keys>,
}

/// Derived keys, one for each kind of file.
struct Keys {
    slots: XChaCha20Poly1305,
    log: [u8; 32],
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Slots = 1,
    Log = 2,
}

/// Contents of a file's header.
struct Begun {
    kind: Kind,
    id: Id,
}

/// Draws 24 random bytes that are unique. Nonces need not be secret, only unique.
fn draw(env: &dyn Env) -> Id {
    let mut bytes = [0; 24];
    bytes.chunks_mut(8).for_each(|b| b.copy_from_slice(&env.random().to_le_bytes()));
    bytes
}

/// Returns the data that a slot's tag covers besides its content: the file's random bytes, the
/// slot's number, and where its content begins and ends.
fn covered(id: &Id, slot: u64, place: &[u8]) -> [u8; 48] {
    let mut bytes = [0; 48];
    bytes[..24].copy_from_slice(id);
    bytes[24..32].copy_from_slice(&slot.to_le_bytes());
    bytes[32..].copy_from_slice(place);
    bytes
}

impl Keys {
    /// Encrypts or decrypts the bytes at `offset` of a log.
    fn stream(&self, id: &Id, offset: u64, text: &mut [u8]) {
        let mut stream = XChaCha20::new(&self.log.into(), id.into());
        stream.seek(offset);
        stream.apply_keystream(text);
    }

    fn seal(&self, nonce: &[u8; 24], clear: &[u8], text: &mut [u8]) -> Tag {
        let sealed = self.slots.encrypt_in_place_detached(nonce.into(), clear, text);
        // Encryption fails only for texts of 256 GiB and more.
        sealed.unwrap_or_default()
    }

    fn open(&self, nonce: &[u8], clear: &[u8], text: &mut [u8], tag: &[u8]) -> bool {
        let (nonce, tag) = (XNonce::from_slice(nonce), Tag::from_slice(tag));
        self.slots.decrypt_in_place_detached(nonce, clear, text, tag).is_ok()
    }
}

impl Encrypted {
    /// Creates a layer that encrypts the files of another environment with this key. The key must
    /// be as good as random. To use a password, derive the key with a function made for that, such
    /// as Argon2.
    pub fn new(inner: Arc<dyn Env>, key: [u8; 32]) -> Encrypted {
        let mut derived = [0; 64];
        XChaCha20::new(&key.into(), b"firn: one key, two kinds".into())
            .apply_keystream(&mut derived);
        let (slots, mut log) = (XChaCha20Poly1305::new(derived[..32].into()), [0; 32]);
        log.copy_from_slice(&derived[32..]);
        Encrypted { inner, keys: Arc::new(Keys { slots, log }) }
    }

    /// Creates the header of a new file.
    fn begin(&self, kind: Kind) -> (Header, Id) {
        let (mut header, id) = ([0; HEADER as usize], draw(&*self.inner));
        header[..8].copy_from_slice(MAGIC);
        header[8] = kind as u8;
        header[16..40].copy_from_slice(&id);
        let tag = self.keys.seal(&id, &header[..40], &mut []);
        header[40..56].copy_from_slice(&tag);
        (header, id)
    }

    /// Reads a file's header; `None` if it has not reached the disk.
    fn begun(&self, file: &dyn ReadFile, path: &Path) -> Result<Option<Begun>> {
        let mut header: Header = [0; HEADER as usize];
        if file.len() < HEADER {
            return Ok(None);
        }
        file.read_at(0, &mut header)?;
        if header.iter().all(|b| *b == 0) {
            return Ok(None);
        }
        let kind = match (&header[..8] == MAGIC, header[8]) {
            (true, 1) => Kind::Slots,
            (true, 2) => Kind::Log,
            _ => {
                return Err(Error::corruption(
                    "this is no encrypted file, or its header is damaged",
                )
                .at(path, 0));
            }
        };
        let mut id = [0; 24];
        id.copy_from_slice(&header[16..40]);
        if !self.keys.open(&id, &header[..40], &mut [], &header[40..56]) {
            let words = "the file was encrypted with another key, or its header has been changed";
            return Err(Error::new(ErrorKind::Incompatible, words).in_file(path));
        }
        Ok(Some(Begun { kind, id }))
    }

    fn open(&self, path: &Path) -> Result<Opened> {
        let file = self.inner.open_read(path, false)?;
        let raw = file.len().saturating_sub(HEADER);
        let content = match self.begun(&*file, path)? {
            None => Content::Blank(raw),
            Some(Begun { kind: Kind::Log, id }) => Content::Log(raw, self.keys.clone(), id),
            Some(Begun { kind: Kind::Slots, id }) => {
                Content::Slots(Slots::of(&*file, id, self.keys.clone())?)
            }
        };
        Ok(Opened { file, path: path.to_path_buf(), content })
    }

    /// Continues a file of slots.
    fn sealing(
        &self,
        file: Box<dyn WriteFile>,
        id: Id,
        slot: u64,
        start: u64,
        gap: u64,
    ) -> Box<dyn WriteFile> {
        let (env, keys) = (self.inner.clone(), self.keys.clone());
        Box::new(Sealing { file, env, keys, id, slot, start, rest: vec![], gap })
    }

    fn log(&self, file: Box<dyn LogFile>, id: Option<Id>) -> Result<Box<dyn LogFile>> {
        let id = match id {
            Some(id) => id,
            None => {
                let (header, id) = self.begin(Kind::Log);
                file.write_at(0, &header)?;
                id
            }
        };
        Ok(Box::new(EncryptedLog { file, keys: self.keys.clone(), id }))
    }
}

/// A file of slots, open for reading.
struct Slots {
    keys: Arc<Keys>,
    id: Id,
    /// Total length of the slots in bytes.
    raw: u64,
    /// Total length of the content in bytes.
    len: u64,
    /// Start of each slot's content; `None` if all slots but the last are full.
    starts: Option<Vec<u64>>,
}

/// Returns the start and the end of a slot's content, according to its header.
fn place(head: &[u8]) -> (u64, u64) {
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[at + i]));
    (number(0), number(0).saturating_add(number(8).min(CHUNK)))
}

impl Slots {
    fn of(file: &dyn ReadFile, id: Id, keys: Arc<Keys>) -> Result<Slots> {
        let raw = file.len().saturating_sub(HEADER);
        let count = raw.div_ceil(SLOT);
        let mut slots = Slots { keys, id, raw, len: 0, starts: None };
        // If the file ends within the slot's header, the missing bytes count as zeros. A later
        // append fills them with zeros.
        let place = |slot: u64| -> Result<(u64, u64)> {
            let mut head = [0; 16];
            file.read_at(HEADER + slot * SLOT, &mut head[..(raw - slot * SLOT).min(16) as usize])?;
            Ok(place(&head))
        };
        let Some(last) = count.checked_sub(1) else { return Ok(slots) };
        let (start, end) = place(last)?;
        if start == last * CHUNK {
            slots.len = end;
            return Ok(slots);
        }
        let mut starts = vec![];
        for slot in 0..count {
            let (start, end) = place(slot)?;
            // A slot that never reached the disk has no content.
            let is_there = start >= slots.len && start <= slot * CHUNK;
            starts.push(if is_there { start } else { slots.len });
            slots.len = if is_there { end } else { slots.len };
        }
        slots.starts = Some(starts);
        Ok(slots)
    }

    fn start(&self, slot: u64) -> Option<u64> {
        match &self.starts {
            Some(starts) => starts.get(usize::try_from(slot).ok()?).copied(),
            None => Some(slot * CHUNK).filter(|start| *start < self.len),
        }
    }

    /// Returns the slot that has the byte at `offset`, or would have it.
    fn slot_at(&self, offset: u64) -> u64 {
        match &self.starts {
            Some(starts) => starts.partition_point(|s| *s <= offset).saturating_sub(1) as u64,
            None => offset / CHUNK,
        }
    }

    /// Returns the start of a slot's content, the start of the next slot's content, and the
    /// content. The content is empty if the slot fails authentication.
    fn content(&self, file: &dyn ReadFile, slot: u64) -> Result<(u64, u64, Vec<u8>)> {
        let start = self.start(slot).unwrap_or(self.len);
        let next = self.start(slot + 1).unwrap_or(self.len);
        let mut bytes = vec![0; self.raw.saturating_sub(slot * SLOT).min(SLOT) as usize];
        file.read_at(HEADER + slot * SLOT, &mut bytes)?;
        let Some((head, text)) = bytes.split_at_mut_checked(SLOT_HEADER) else {
            return Ok((start, next, vec![]));
        };
        let (from, until) = place(head);
        let text = text.get_mut(..(until - from) as usize).unwrap_or_default();
        let clear = covered(&self.id, slot, &head[..16]);
        let sound = from == start && self.keys.open(&head[16..40], &clear, text, &head[40..]);
        Ok((start, next, if sound { text.to_vec() } else { vec![] }))
    }

    fn read(&self, file: &dyn ReadFile, mut offset: u64, mut buf: &mut [u8]) -> Result<()> {
        buf.fill(0);
        while !buf.is_empty() {
            let (start, next, text) = self.content(file, self.slot_at(offset))?;
            let n = (next.saturating_sub(offset).max(1) as usize).min(buf.len());
            let (now, later) = buf.split_at_mut(n);
            let here = text.get((offset - start) as usize..).unwrap_or_default();
            now.iter_mut().zip(here).for_each(|(to, from)| *to = *from);
            (buf, offset) = (later, offset + n as u64);
        }
        Ok(())
    }
}

enum Content {
    /// The file's header never reached the disk.
    Blank(u64),
    Log(u64, Arc<Keys>, Id),
    Slots(Slots),
}

/// A file that is open for reading.
struct Opened {
    file: Arc<dyn ReadFile>,
    path: std::path::PathBuf,
    content: Content,
}

impl ReadFile for Opened {
    fn len(&self) -> u64 {
        match &self.content {
            Content::Blank(len) | Content::Log(len, ..) => *len,
            Content::Slots(slots) => slots.len,
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        if offset.checked_add(buf.len() as u64).is_none_or(|end| end > self.len()) {
            let words =
                format!("the file ends before the {} bytes that should be there", buf.len());
            return Err(Error::corruption(words).at(&self.path, offset));
        }
        match &self.content {
            Content::Blank(_) => buf.fill(0),
            Content::Log(_, keys, id) => {
                self.file.read_at(HEADER + offset, buf)?;
                keys.stream(id, offset, buf);
            }
            Content::Slots(slots) => slots.read(&*self.file, offset, buf)?,
        }
        Ok(())
    }

    fn map(&self) -> Option<Arc<dyn FileMap>> {
        None
    }
}

/// A file of slots, open for writing.
struct Sealing {
    file: Box<dyn WriteFile>,
    env: Arc<dyn Env>,
    keys: Arc<Keys>,
    id: Id,
    /// Number of the next slot, and `start`, the start of its content.
    slot: u64,
    start: u64,
    /// Content that is not in a slot yet.
    rest: Vec<u8>,
    /// Bytes from here to the end of the last slot, if that is short.
    gap: u64,
}

impl Sealing {
    /// Seals full slots; with `all` also the remaining content.
    fn seal(&mut self, all: bool) -> Result<()> {
        let (mut out, mut done) = (vec![], 0);
        while self.rest.len() - done >= CHUNK as usize || (all && done < self.rest.len()) {
            let text = &self.rest[done..self.rest.len().min(done + CHUNK as usize)];
            out.resize(out.len() + self.gap as usize, 0);
            let at = out.len();
            out.extend_from_slice(&self.start.to_le_bytes());
            out.extend_from_slice(&(text.len() as u64).to_le_bytes());
            out.resize(at + SLOT_HEADER, 0);
            out.extend_from_slice(text);
            let (head, sealed) = out[at..].split_at_mut(SLOT_HEADER);
            let (nonce, clear) = (draw(&*self.env), covered(&self.id, self.slot, &head[..16]));
            head[16..40].copy_from_slice(&nonce);
            head[40..].copy_from_slice(&self.keys.seal(&nonce, &clear, sealed));
            done += text.len();
            (self.slot, self.start, self.gap) =
                (self.slot + 1, self.start + text.len() as u64, CHUNK - text.len() as u64);
        }
        self.rest.drain(..done);
        if out.is_empty() { Ok(()) } else { self.file.append(&out) }
    }
}

impl WriteFile for Sealing {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.rest.extend_from_slice(bytes);
        self.seal(false)
    }

    fn sync(&mut self) -> Result<()> {
        self.seal(true)?;
        self.file.sync()
    }

    fn len(&self) -> u64 {
        self.start + self.rest.len() as u64
    }
}

impl Drop for Sealing {
    fn drop(&mut self) {
        // Unsynced content carries no guarantee, so an error does not matter. In a child of
        // `fork()` the parent writes the file.
        if !self.env.is_forked() {
            let _ = self.seal(true);
        }
    }
}

struct EncryptedLog {
    file: Box<dyn LogFile>,
    keys: Arc<Keys>,
    id: Id,
}

impl LogFile for EncryptedLog {
    fn capacity(&self) -> u64 {
        self.file.capacity().saturating_sub(HEADER)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.capacity()) {
            return Err(Error::invalid(format!(
                "a write of {} bytes at {offset} does not fit into the log",
                bytes.len()
            )));
        }
        let mut text = bytes.to_vec();
        self.keys.stream(&self.id, offset, &mut text);
        self.file.write_at(HEADER + offset, &text)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn prepare(&self, offset: u64, len: u64) {
        self.file.prepare(HEADER + offset, len);
    }

    fn shorten(&mut self, len: u64) -> Result<()> {
        self.file.shorten(HEADER + len)
    }
}

impl Env for Encrypted {
    fn hold_dir(&self, dir: &Path) -> Result<Option<Arc<dyn Env>>> {
        let held = self.inner.hold_dir(dir)?;
        Ok(held.map(|inner| Arc::new(Encrypted { inner, keys: self.keys.clone() }) as _))
    }
    fn file_len(&self, file: &Path) -> Result<u64> {
        Ok(self.open(file)?.len())
    }
    fn open_read(&self, file: &Path, _map: bool) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(self.open(file)?))
    }
    fn read_all(&self, file: &Path, cap: u64) -> Result<Vec<u8>> {
        let opened = self.open(file)?;
        if opened.len() > cap {
            let words = format!(
                "the file has {} bytes, more than the {cap} that it can have",
                opened.len()
            );
            return Err(Error::corruption(words).at(file, cap));
        }
        let mut bytes = vec![0; opened.len() as usize];
        opened.read_at(0, &mut bytes)?;
        Ok(bytes)
    }
    fn create(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        let mut file = self.inner.create(file)?;
        let (header, id) = self.begin(Kind::Slots);
        file.append(&header)?;
        Ok(self.sealing(file, id, 0, 0, 0))
    }
    fn append(&self, file: &Path) -> Result<Box<dyn WriteFile>> {
        let opened = match self.open(file) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            opened => opened.ok(),
        };
        let Some(Content::Slots(slots)) = opened.map(|o| o.content) else {
            return self.create(file);
        };
        let gap = slots.raw.next_multiple_of(SLOT) - slots.raw;
        let (slot, start) = (slots.raw.div_ceil(SLOT), slots.len);
        Ok(self.sealing(self.inner.append(file)?, slots.id, slot, start, gap))
    }
    fn create_log(&self, file: &Path, capacity: u64) -> Result<Box<dyn LogFile>> {
        self.log(self.inner.create_log(file, capacity.saturating_add(HEADER))?, None)
    }
    fn reuse_log(&self, file: &Path) -> Result<Box<dyn LogFile>> {
        self.log(self.inner.reuse_log(file)?, None)
    }
    fn rewrite_log(&self, file: &Path) -> Result<Box<dyn LogFile>> {
        let begun = self.begun(&*self.inner.open_read(file, false)?, file)?;
        self.log(self.inner.rewrite_log(file)?, begun.map(|b| b.id))
    }

    // All other calls go to the inner environment unchanged.
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.inner.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.inner.sync_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.hard_link(from, to)
    }
    fn remove(&self, file: &Path) -> Result<()> {
        self.inner.remove(file)
    }
    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.inner.remove_dir(dir)
    }
    fn lock(&self, file: &Path) -> Result<Box<dyn FileLock>> {
        self.inner.lock(file)
    }
    fn free_space(&self, dir: &Path) -> Option<u64> {
        self.inner.free_space(dir)
    }
    fn memory(&self) -> Option<u64> {
        self.inner.memory()
    }
    fn descriptors(&self) -> Option<u64> {
        self.inner.descriptors()
    }
    fn wall_micros(&self) -> u64 {
        self.inner.wall_micros()
    }
    fn monotonic_nanos(&self) -> u64 {
        self.inner.monotonic_nanos()
    }
    fn sleep(&self, time: Duration) {
        self.inner.sleep(time);
    }
    fn spawn(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> Result<Box<dyn Thread>> {
        self.inner.spawn(name, work)
    }
    fn lower_priority(&self) {
        self.inner.lower_priority();
    }
    fn is_forked(&self) -> bool {
        self.inner.is_forked()
    }
    fn random(&self) -> u64 {
        self.inner.random()
    }
}
