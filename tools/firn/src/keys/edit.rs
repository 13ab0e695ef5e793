//! Commands that change the content of a store: `firn put`, `firn delete`.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use firn_kv::{Batch, MAX_VALUE_LEN, Tree, TreeOptions};
use serde_json::json;

use crate::bench;
use crate::store::{DEFAULT_TREE, Global};
use firn_tools::escape;
use firn_tools::io::{Input, confirm, stderr_is_terminal, stdin_is_terminal};
use firn_tools::keys::{self, RangeArgs};
use firn_tools::options::Durable;
use firn_tools::output::{self, Done, Failure, things};

pub const PUT_EXAMPLES: &str = "\
All keys get their values atomically. The store and the tree are created if they do not exist. Keys and values are used byte for byte;
`firn load` reads many of them from a file.

Examples:
  firn put apple red
  firn put apple red pear green --tree fruit
  firn put photo --from photo.jpg            the content of a file as the value
  date | firn put now --from -
  firn put --hex 00ff 0102 --durability power";

/// Arguments of `firn put`.
#[derive(Args, Clone, Debug)]
pub struct PutArgs {
    /// Put these keys, each followed by its value
    #[arg(value_name = "KEY VALUE", required = true)]
    words: Vec<OsString>,
    /// Read the value of the only key from this file; - is standard input
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Put into this tree, which is created if it does not exist [default: the tree "default", or
    /// the only one that no bench created]
    #[arg(long, value_name = "NAME")]
    tree: Option<String>,
    /// Read keys and values as hexadecimal
    #[arg(long)]
    hex: bool,
    /// Select the durability of the writes when the command ends
    #[arg(long, value_enum, default_value = "process")]
    durability: Durable,
}

impl PutArgs {
    fn pairs(&self) -> Done<Vec<(Vec<u8>, Vec<u8>)>> {
        let bytes = |word: &OsString| keys::key(word, self.hex);
        if let Some(file) = &self.from {
            let [key] = &self.words[..] else {
                return Err(Failure::with_next(
                    "--from gives the value of a single key",
                    "name that key only, without a value",
                ));
            };
            return Ok(vec![(bytes(key)?, value_of(file)?)]);
        }
        if !self.words.len().is_multiple_of(2) {
            let last =
                self.words.last().map(|w| escape::words(w.as_encoded_bytes())).unwrap_or_default();
            return Err(Failure::with_next(
                format!("the key {last} has no value"),
                "`firn put KEY VALUE`, or `firn put KEY --from FILE`",
            ));
        }
        self.words.chunks_exact(2).map(|two| Ok((bytes(&two[0])?, bytes(&two[1])?))).collect()
    }
}

/// Reads the content of a file as a value, up to the maximum length.
fn value_of(file: &Path) -> Done<Vec<u8>> {
    let failed = |e: std::io::Error| Failure::file("read", file, &e);
    let mut value = vec![];
    let input = Input::open(file).map_err(failed)?;
    input.take(MAX_VALUE_LEN as u64 + 1).read_to_end(&mut value).map_err(failed)?;
    match value.len() > MAX_VALUE_LEN {
        true => Err(Failure::new(format!(
            "{} is longer than a value may be, {MAX_VALUE_LEN} bytes",
            file.display()
        ))),
        false => Ok(value),
    }
}

/// Runs `firn put`.
pub fn put(global: &Global, args: &PutArgs) -> Done {
    let pairs = args.pairs()?;
    let bytes = pairs.iter().map(|(k, v)| (k.len() + v.len()) as u64).sum();
    let db = global.open_to_write(true, bytes)?;
    // A later bench replaces the tree of an earlier bench, including keys put into it. It does not
    // change a store with other trees.
    let is_new = db.tree_names().is_empty() || bench::is_of_a_bench(&global.store.db)?;
    let named = args.tree.as_deref().map(|name| global.tree_name(&db, name));
    let named = named.or(is_new.then(|| DEFAULT_TREE.to_owned()));
    // Options apply only to a new tree: they would replace those of an existing one.
    let tree = match named.as_deref().filter(|name| !db.tree_names().iter().any(|n| n == name)) {
        Some(new) => {
            global.check_own_tree(new)?;
            db.tree(new, TreeOptions::default())?
        }
        None => global.tree(&db, named.as_deref())?,
    };
    global.check_own_tree(tree.name())?;
    let mut batch = Batch::new();
    pairs.iter().try_for_each(|(key, value)| batch.put(&tree, key, value))?;
    db.with_durability(args.durability.into()).write(batch)?;
    global.print_json(json!({"tree": tree.name(), "keys": pairs.len(), "bytes": bytes}))?;
    eprintln!("put {} into the tree {:?}", things(pairs.len() as u64, "key", "keys"), tree.name());
    Ok(())
}

pub const DELETE_EXAMPLES: &str = "\
All keys are deleted atomically. The cost of deleting a range does not depend on its number of keys. On a terminal the command asks
before it deletes a range, elsewhere it requires --yes.

Examples:
  firn delete apple pear
  firn delete --from a --to b --dry-run  show what would be deleted
  firn delete --from a --to b           a is deleted, b is not
  firn delete --prefix session: --yes   without asking
  firn delete --hex 00ff --tree old";

/// Arguments of `firn delete`.
#[derive(Args, Clone, Debug)]
pub struct DeleteArgs {
    /// Delete these keys, byte for byte
    #[arg(value_name = "KEY", conflicts_with_all = ["from", "to", "prefix"])]
    keys: Vec<OsString>,
    #[command(flatten)]
    range: RangeArgs,
    /// Delete from this tree [default: the tree "default", or the only one]
    #[arg(long, value_name = "NAME")]
    tree: Option<String>,
    /// Read keys as hexadecimal
    #[arg(long)]
    hex: bool,
    /// Print the number of keys to delete, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Delete a range without confirmation
    #[arg(short, long)]
    yes: bool,
    /// Select the durability of the deletion when the command ends
    #[arg(long, value_enum, default_value = "process")]
    durability: Durable,
}

/// Runs `firn delete`.
pub fn delete(global: &Global, args: &DeleteArgs) -> Done {
    if args.keys.is_empty() && args.range.is_empty() {
        return Err(Failure::with_next(
            "no keys to delete are given",
            "give keys, or --from and --to, or --prefix",
        ));
    }
    let keys = args.keys.iter().map(|k| keys::key(k, args.hex)).collect::<Done<Vec<_>>>()?;
    let range = args.range.range(args.hex)?;
    if args.dry_run {
        return would_delete(global, args, &keys, &range);
    }
    let asks = stdin_is_terminal() && stderr_is_terminal();
    if keys.is_empty() && !args.yes && !asks {
        let next = "say --yes; --dry-run prints how many keys would go";
        return Err(Failure::with_next("deleting a range needs a confirmation", next));
    }
    let db = global.open_to_write(false, 0)?;
    let tree = global.tree(&db, args.tree.as_deref())?;
    global.check_own_tree(tree.name())?;
    if keys.is_empty() && !args.yes && !is_meant(&tree, &range)? {
        eprintln!("nothing is deleted");
        return Ok(());
    }
    let mut batch = Batch::new();
    for key in &keys {
        batch.delete(&tree, key)?;
    }
    if keys.is_empty() {
        batch.delete_range(&tree, range.bounds())?;
    }
    db.with_durability(args.durability.into()).write(batch)?;
    global.print_json(
        json!({"tree": tree.name(), "keys": keys.len(), "ranges": u8::from(keys.is_empty())}),
    )?;
    match keys.len() as u64 {
        0 => eprintln!("deleted a range of the tree {:?}", tree.name()),
        // Deletions are blind: the command does not know whether the keys existed.
        1 => eprintln!("deleted 1 key of the tree {:?}, if it was there", tree.name()),
        n => eprintln!("deleted {n} keys of the tree {:?}, if they were there", tree.name()),
    }
    Ok(())
}

/// Returns the first and the last key of a range; `None` if it is empty.
fn ends(tree: &Tree, range: &keys::KeyRangeArg) -> Done<Option<(Vec<u8>, Vec<u8>)>> {
    let mut cursor = tree.cursor(range.bounds())?;
    cursor.first()?;
    if !cursor.is_valid() {
        return Ok(None);
    }
    let first = cursor.key().to_vec();
    cursor.last()?;
    Ok(Some((first, cursor.key().to_vec())))
}

/// Shows the first and last key of a range, and asks for confirmation.
fn is_meant(tree: &Tree, range: &keys::KeyRangeArg) -> Done<bool> {
    let Some((first, last)) = ends(tree, range)? else {
        eprintln!("the tree {:?} has no key in this range", tree.name());
        return Ok(false);
    };
    let (first, last) = (escape::words(&first), escape::words(&last));
    let question = format!("delete all keys of the tree {:?} from {first} to {last}?", tree.name());
    Ok(confirm(&question)?)
}

/// Reports the effect of a deletion.
fn would_delete(
    global: &Global,
    args: &DeleteArgs,
    keys: &[Vec<u8>],
    range: &keys::KeyRangeArg,
) -> Done {
    let db = global.open_to_read()?;
    let tree = global.tree(&db, args.tree.as_deref())?;
    global.check_own_tree(tree.name())?;
    let (mut there, mut bytes) = (0u64, 0u64);
    let mut ends: Option<(Vec<u8>, Vec<u8>)> = None;
    let mut note = |key: &[u8], value: &[u8]| {
        there += 1;
        bytes += (key.len() + value.len()) as u64;
    };
    if keys.is_empty() {
        let mut cursor = tree.cursor(range.bounds())?;
        cursor.first()?;
        while cursor.is_valid() {
            note(cursor.key(), cursor.value());
            match &mut ends {
                Some((_, last)) => cursor.key().clone_into(last),
                None => ends = Some((cursor.key().to_vec(), cursor.key().to_vec())),
            }
            cursor.next()?;
        }
    }
    for key in keys {
        if let Some(value) = tree.get(key)? {
            note(key, &value);
        }
    }
    let of = format!("of the tree {:?}", tree.name());
    global
        .print_json(json!({"tree": tree.name(), "dry_run": true, "keys": there, "bytes": bytes}))?;
    let what = format!("{} with {}", things(there, "key", "keys"), output::bytes(bytes));
    match (ends, keys.len()) {
        (Some((first, last)), _) => {
            eprintln!(
                "would delete {what} {of}, from {} to {}",
                escape::words(&first),
                escape::words(&last)
            )
        }
        (None, 0) => eprintln!("would delete nothing: no key {of} is in this range"),
        (None, named) => eprintln!("would delete {what} {of}, of {named} named"),
    }
    Ok(())
}
