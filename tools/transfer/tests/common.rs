//! Directories of tests, rows of sources, and values at the ends of their types.
#![allow(clippy::disallowed_methods, reason = "temporary directories")]

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use firn_cql::internals::values::put_many;
use firn_tools::output::{Done, Failure};
use firn_transfer::source::{RowPlace, RowSource, RowVisitor, SourceCell, VisitFlow};
use firn_wide::{Type, UserType};

/// A directory that is removed at the end of the test.
pub struct Temp(PathBuf);

impl Temp {
    /// Creates a directory; `name` names the test.
    pub fn new(name: &str) -> Temp {
        let dir = std::env::temp_dir().join(format!("firn-transfer-{name}-{}", std::process::id()));
        fs::remove_dir_all(&dir).ok();
        fs::create_dir_all(&dir).unwrap();
        Temp(dir)
    }

    /// Returns the path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file.
    pub fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Reads a file.
pub fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}

/// Returns the message of a failure.
pub fn message(failure: Failure) -> String {
    match failure {
        Failure::Failed { what, .. } => what,
        other => format!("{other:?}"),
    }
}

/// Rows of a source, and its bad rows.
#[derive(Default)]
pub struct Collected {
    pub rows: Vec<Vec<SourceCell>>,
    pub bad: Vec<(RowPlace, String)>,
}

impl RowVisitor for Collected {
    fn row(&mut self, _: RowPlace, _: u64, cells: &mut [SourceCell]) -> VisitFlow {
        self.rows.push(cells.to_vec());
        Ok(ControlFlow::Continue(()))
    }

    fn bad(&mut self, place: RowPlace, _: u64, why: String) -> VisitFlow {
        self.bad.push((place, why));
        Ok(ControlFlow::Continue(()))
    }
}

/// Reads the rows of a source after the first `skip`.
pub fn rows(source: &mut dyn RowSource, skip: u64) -> Done<Collected> {
    let mut all = Collected::default();
    source.read(skip, &mut all)?;
    Ok(all)
}

fn ints(n: &[i64], len: usize) -> Vec<Vec<u8>> {
    n.iter().map(|n| n.to_be_bytes()[8 - len..].to_vec()).collect()
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|t| t.as_bytes().to_vec()).collect()
}

/// Returns a decimal.
fn decimal(scale: i32, digits: &[u8]) -> Vec<u8> {
    [&scale.to_be_bytes()[..], digits].concat()
}

/// Returns the types of CQL without parts, each with values at the ends of its range.
pub fn scalars() -> Vec<(Type, Vec<Vec<u8>>)> {
    let ends = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX];
    // Days before 1970, and both ends of the calendar.
    let days = [0_i64, 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1];
    let floats: Vec<Vec<u8>> =
        [0x7fc0_0000_u32, 0x7fc0_0001, 0xffc0_0000, 0x7f80_0000, 0xff80_0000, 0x8000_0000, 1]
            .map(|n| n.to_be_bytes().to_vec())
            .into();
    let doubles: Vec<Vec<u8>> =
        [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MIN, f64::MIN_POSITIVE, 0.1]
            .map(|n| n.to_be_bytes().to_vec())
            .into();
    let strange = ["", "it's", "null", "0x00", "\\N", "[1]", "\"", "a, b\r\n\t", "é🙂", " x "];
    let uuid = |head: u8, version: u8| {
        let mut bytes = vec![head; 16];
        bytes[6] = version << 4 | 0x0e;
        bytes[8] = 0x80;
        bytes
    };
    vec![
        (Type::Bytes, vec![vec![], vec![0], vec![255; 40], b"\r\n".to_vec()]),
        (Type::Ascii, texts(&strange[..8])),
        (Type::Utf8, texts(&strange)),
        (Type::Long, ints(&ends, 8)),
        (Type::Counter, ints(&ends, 8)),
        (Type::Int32, ints(&[i32::MIN.into(), -1, 0, i32::MAX.into()], 4)),
        (Type::Short, ints(&[i16::MIN.into(), -1, 0, i16::MAX.into()], 2)),
        (Type::Byte, ints(&[i8::MIN.into(), -1, 0, i8::MAX.into()], 1)),
        (Type::Integer, vec![vec![0], vec![0xff], vec![0x7f; 40], vec![0x80, 0, 0]]),
        (
            Type::Decimal,
            vec![
                decimal(2, &[0xff, 0x6a]),
                decimal(0, &[0]),
                decimal(-3, &[5]),
                decimal(50, &[0x80; 30]),
                decimal(1, &[10]),
            ],
        ),
        (Type::Timestamp, ints(&[-1, 0, 253_402_300_799_999, -62_135_596_800_000], 8)),
        (Type::SimpleDate, ints(&days, 4)),
        (Type::Time, ints(&[0, 1, 86_399_999_999_999], 8)),
        (Type::Boolean, vec![vec![0], vec![1]]),
        (Type::Float, floats),
        (Type::Double, doubles),
        (Type::Uuid, vec![uuid(0, 4), uuid(0xff, 4)]),
        (Type::TimeUuid, vec![uuid(1, 1), uuid(0xee, 1)]),
        (Type::Inet, vec![vec![127, 0, 0, 1], vec![0; 16], vec![255; 16]]),
        (Type::Duration, vec![vec![0, 0, 0], vec![2, 4, 6], vec![1, 3, 5]]),
    ]
}

/// Returns a value alone, and as each kind of part.
pub fn wrapped(of: &Type, bytes: &[u8]) -> Vec<(Type, Vec<u8>)> {
    let part = || Some(bytes.to_vec());
    let user = UserType {
        keyspace: "ks".into(),
        name: "pair".into(),
        fields: [("a".to_owned(), of.clone()), ("B".to_owned(), Type::List(of.clone().into()))]
            .into(),
    };
    let list = Type::List(of.clone().into());
    let set = Type::Set(of.clone().into());
    let map = Type::Map((of.clone(), list.clone()).into());
    let tuple = Type::Tuple([of.clone(), Type::Int32, list.clone()].into());
    let udt = Type::Udt(Arc::new(user));
    let listed = put_many(&list, vec![part(), part()]).unwrap();
    let mut all = vec![
        (of.clone(), bytes.to_vec()),
        (map.clone(), put_many(&map, vec![part(), Some(listed.clone())]).unwrap()),
        (map.clone(), put_many(&map, vec![]).unwrap()),
        (set.clone(), put_many(&set, vec![part()]).unwrap()),
        (list.clone(), put_many(&list, vec![]).unwrap()),
        (tuple.clone(), put_many(&tuple, vec![part(), None, Some(listed.clone())]).unwrap()),
        (udt.clone(), put_many(&udt, vec![None, Some(listed.clone())]).unwrap()),
        (udt.clone(), put_many(&udt, vec![part(), None]).unwrap()),
        (list, listed),
    ];
    let vector = Type::Vector(of.clone().into(), 2);
    let vectored = put_many(&vector, vec![part(), part()]).unwrap();
    if vector.validate(&vectored).is_ok() {
        all.push((vector, vectored));
    }
    // Durations have no order, so they are in no set and are no keys.
    all.retain(|(of, _)| {
        let has_order = !matches!(of, Type::Set(_) | Type::Map(_));
        has_order || !firn_cql::internals::catalog::has_duration(of)
    });
    all
}
