//! Environments of LMDB: the pairs of one database, in the order of their keys.
//!
//! The reader knows version 1 of the data format, for machines with 64-bit little-endian words. A
//! page has 16 bytes of header: number (8), padding (2), flags (2), and the bounds of its free space
//! (2, 2) or the number of its overflow pages (4). Then follow 2-byte offsets of its nodes. A node
//! has the size of its value (4; in a branch, with the flags, the number of the child), flags (2),
//! the size of its key (2), the key and the value.
//!
//! Invariants:
//! - The file is read without a map and without the lock file, and never written.
//! - It must not change meanwhile: the reader compares the transaction at the begin and at the end.

use std::ops::ControlFlow;
use std::path::Path;

use firn_tools::io;
use firn_tools::output::{Done, Failure};

use super::file::SourceFile;
use super::rows::{
    RowCounter, RowSource, RowVisitor, SourceColumn, SourceLength, VisitFlow, damaged, pair_columns,
};

const MAGIC: u32 = 0xBEEF_C0DE;
const VERSION: u32 = 1;
/// Bytes of a page's header, and of a node's.
const PAGE_HEADER: usize = 16;
const NODE_HEADER: usize = 8;
/// Bytes of the description of a database.
const DB: usize = 48;
/// Offset of the free list's description in a meta page; the main database's follows.
const META_DBS: usize = PAGE_HEADER + 24;
/// Maximum depth of a tree; LMDB's own limit.
const MAX_DEPTH: u32 = 32;
/// Number of no page.
const NO_PAGE: u64 = u64::MAX;
/// Maximum bytes of a value.
const MAX_VALUE: usize = 1 << 32;

// Flags of pages.
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const OVERFLOW: u16 = 4;
const FIXED_LEAF: u16 = 0x20;
// Flags of nodes.
const BIG: u16 = 1;
const SUB_DB: u16 = 2;
const DUPLICATES: u16 = 4;
// Flags of databases.
const HAS_DUPLICATES: u16 = 4;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Description of a database.
#[derive(Clone, Copy, Debug)]
struct LmdbTree {
    flags: u16,
    entries: u64,
    root: u64,
}

impl LmdbTree {
    fn read(bytes: &[u8]) -> Option<LmdbTree> {
        Some(LmdbTree {
            flags: u16_at(bytes, 4)?,
            entries: u64_at(bytes, 32)?,
            root: u64_at(bytes, 40)?,
        })
    }
}

/// A node of a leaf.
struct LeafNode<'p> {
    flags: u16,
    /// Bytes of the value.
    size: usize,
    key: &'p [u8],
    /// The page after the key.
    rest: &'p [u8],
}

/// The newest transaction of an environment.
struct LmdbMeta {
    page_size: usize,
    transaction: u64,
    main: LmdbTree,
}

/// A database of an LMDB environment.
pub struct LmdbSource {
    file: SourceFile,
    meta: LmdbMeta,
    tree: LmdbTree,
    columns: Vec<SourceColumn>,
    /// Pages visited by the current scan, each at most once.
    visited: u64,
}

impl LmdbSource {
    /// Opens a database of an environment: a directory with `data.mdb`, or that file itself.
    ///
    /// # Errors
    /// It is not an environment, or of another data format; there is no such database; damage.
    pub fn open(path: &Path, name: Option<&str>) -> Done<LmdbSource> {
        let path = if io::is_dir(path) { path.join("data.mdb") } else { path.to_path_buf() };
        let mut file = SourceFile::open(&path)?;
        let meta = meta(&mut file)?;
        let tree = meta.main;
        let mut source = LmdbSource { file, meta, tree, columns: pair_columns(), visited: 0 };
        let names = source.names()?;
        let list = || names.iter().map(|n| n.0.clone()).collect::<Vec<_>>().join(", ");
        match name {
            Some(name) => match names.iter().find(|(n, _)| n == name) {
                Some((_, tree)) => source.tree = *tree,
                None => {
                    return Err(Failure::with_next(
                        format!("{} has no database {name:?}", path.display()),
                        match names.is_empty() {
                            true => "leave --part out: it has only the unnamed one".to_owned(),
                            false => format!("it has {}", list()),
                        },
                    ));
                }
            },
            None if !names.is_empty() => {
                return Err(Failure::with_next(
                    format!("{} has named databases: {}", path.display(), list()),
                    "choose one with --part NAME",
                ));
            }
            None => {}
        }
        if source.tree.flags & HAS_DUPLICATES != 0 {
            return Err(Failure::with_next(
                format!("{}: this database has several values for a key", path.display()),
                "a tree has one value for a key: write pairs of both as keys with its own program",
            ));
        }
        Ok(source)
    }

    /// Returns the named databases.
    fn names(&mut self) -> Done<Vec<(String, LmdbTree)>> {
        let mut names = vec![];
        let main = self.meta.main;
        self.leaves(main.root, 0, &mut |file, _, node| {
            if node.flags & SUB_DB != 0 && node.flags & DUPLICATES == 0 {
                let tree = node.rest.get(..DB.min(node.size)).and_then(LmdbTree::read);
                let tree = tree.ok_or_else(|| damaged(file.path(), "a malformed database"))?;
                names.push((String::from_utf8_lossy(node.key).into_owned(), tree));
                return Ok(ControlFlow::Continue(()));
            }
            // An environment has either names or pairs, so one pair answers.
            Ok(ControlFlow::Break(()))
        })
        .map(drop)?;
        Ok(names)
    }

    /// Visits the nodes of the leaves below a page in order.
    fn leaves(
        &mut self,
        number: u64,
        depth: u32,
        visit: &mut dyn FnMut(&mut SourceFile, usize, &LeafNode<'_>) -> VisitFlow,
    ) -> VisitFlow {
        if number == NO_PAGE {
            return Ok(ControlFlow::Continue(()));
        }
        let fail = |file: &SourceFile, why: &str| {
            damaged(file.path(), format!("the page with number {number}: {why}"))
        };
        if depth > MAX_DEPTH {
            return Err(fail(&self.file, "its tree is too deep"));
        }
        let size = self.meta.page_size;
        self.visited = if depth == 0 { 1 } else { self.visited + 1 };
        if self.visited > self.file.len() / size as u64 {
            return Err(fail(&self.file, "its tree has a cycle"));
        }
        let page = page(&mut self.file, size, number)?;
        let malformed = |file: &SourceFile| fail(file, "it is malformed");
        let (Some(own), Some(flags), Some(lower)) =
            (u64_at(&page, 0), u16_at(&page, 10), u16_at(&page, 12))
        else {
            return Err(malformed(&self.file));
        };
        if own != number || flags & FIXED_LEAF != 0 || usize::from(lower) < PAGE_HEADER {
            return Err(malformed(&self.file));
        }
        for i in 0..(usize::from(lower) - PAGE_HEADER) / 2 {
            let node = u16_at(&page, PAGE_HEADER + 2 * i)
                .and_then(|at| page.get(usize::from(at)..))
                .filter(|node| node.len() >= NODE_HEADER)
                .ok_or_else(|| malformed(&self.file))?;
            let (Some(low), Some(node_flags), Some(key)) =
                (u32_at(node, 0), u16_at(node, 4), u16_at(node, 6))
            else {
                return Err(malformed(&self.file));
            };
            let flow = match flags & (BRANCH | LEAF) {
                BRANCH => {
                    let child = u64::from(low) | u64::from(node_flags) << 32;
                    self.leaves(child, depth + 1, visit)?
                }
                LEAF => {
                    let parts = node[NODE_HEADER..].split_at_checked(usize::from(key));
                    let (key, rest) = parts.ok_or_else(|| malformed(&self.file))?;
                    let node = LeafNode { flags: node_flags, size: low as usize, key, rest };
                    visit(&mut self.file, size, &node)?
                }
                _ => return Err(malformed(&self.file)),
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn page(file: &mut SourceFile, size: usize, number: u64) -> Done<Vec<u8>> {
    let offset = number.checked_mul(size as u64);
    let offset = offset.ok_or_else(|| damaged(file.path(), format!("no page {number}")))?;
    file.read_at(offset, size)
}

/// Returns the newest of the two meta pages.
fn meta(file: &mut SourceFile) -> Done<LmdbMeta> {
    let foreign = |file: &SourceFile| {
        Failure::with_next(
            format!("{} is not an LMDB environment of data format 1", file.path().display()),
            "the format must be that of a 64-bit little-endian machine",
        )
    };
    let read = |bytes: &[u8]| -> Option<LmdbMeta> {
        let version = u32_at(bytes, PAGE_HEADER + 4)? & 0xFFFF;
        if u32_at(bytes, PAGE_HEADER)? != MAGIC || version != VERSION {
            return None;
        }
        let page_size = u32_at(bytes, META_DBS)? as usize;
        let is_valid = page_size.is_power_of_two() && (512..=1 << 16).contains(&page_size);
        is_valid.then_some(LmdbMeta {
            page_size,
            transaction: u64_at(bytes, META_DBS + 2 * DB + 8)?,
            main: LmdbTree::read(&bytes[META_DBS + DB..])?,
        })
    };
    let length = META_DBS + 2 * DB + 16;
    if file.len() < length as u64 {
        return Err(foreign(file));
    }
    let first = read(&file.read_at(0, length)?).ok_or_else(|| foreign(file))?;
    let second = file.read_at(first.page_size as u64, length)?;
    let second = read(&second).filter(|m| m.transaction > first.transaction);
    Ok(second.unwrap_or(first))
}

/// Returns the value of a node.
fn value(file: &mut SourceFile, page_size: usize, node: &LeafNode<'_>) -> Done<Vec<u8>> {
    if node.flags & BIG == 0 {
        let value = node.rest.get(..node.size);
        return value.map(<[u8]>::to_vec).ok_or_else(|| damaged(file.path(), "a malformed value"));
    }
    let number = u64_at(node.rest, 0).filter(|_| node.size < MAX_VALUE);
    let number = number.ok_or_else(|| damaged(file.path(), "a malformed long value"))?;
    let head = page(file, page_size, number)?;
    let is_right = u64_at(&head, 0) == Some(number)
        && u16_at(&head, 10).is_some_and(|flags| flags & OVERFLOW != 0);
    if !is_right {
        return Err(damaged(file.path(), format!("page {number} has no long value")));
    }
    file.read_at(number * page_size as u64 + PAGE_HEADER as u64, node.size)
}

impl RowSource for LmdbSource {
    fn columns(&self) -> &[SourceColumn] {
        &self.columns
    }

    fn length(&self) -> SourceLength {
        SourceLength::Rows(Some(self.tree.entries))
    }

    fn read(&mut self, skip: u64, visitor: &mut dyn RowVisitor) -> Done {
        let mut counter = RowCounter::new(skip, visitor);
        self.leaves(self.tree.root, 0, &mut |file, page_size, node| {
            if node.flags & (SUB_DB | DUPLICATES) != 0 {
                return Err(damaged(file.path(), "several values for a key"));
            }
            let value = value(file, page_size, node)?;
            counter.pair(node.key, &value)
        })
        .map(drop)?;
        let now = meta(&mut self.file)?;
        if now.transaction != self.meta.transaction {
            return Err(Failure::with_next(
                format!("{} was written to during the import", self.file.path().display()),
                "stop its writer, or import a copy made by `mdb_copy`",
            ));
        }
        Ok(())
    }
}
