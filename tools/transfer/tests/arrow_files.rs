//! Parquet and Arrow files: every type comes back exactly, and damaged files are errors.
#![allow(clippy::disallowed_methods, reason = "files that the tests damage")]

use super::common::{self, Temp, message, rows, scalars, wrapped};

use std::path::Path;

use clap::ValueEnum;
use firn_cql::internals::values::{plain, split};
use firn_transfer::export::{ExportColumn, ExportCompression, ExportSettings, create};
use firn_transfer::format::TransferFormat;
use firn_transfer::source::{SourceCell, SourceOptions, open};
use firn_wide::Type;
use proptest::prelude::*;

const FORMATS: [TransferFormat; 2] = [TransferFormat::Parquet, TransferFormat::ArrowIpc];

/// Values of a column; `None` is null.
type ColumnValues = (Type, Vec<Option<Vec<u8>>>);

/// Writes columns to a file.
fn write(path: &Path, format: TransferFormat, columns: &[ColumnValues], settings: &ExportSettings) {
    let described: Vec<ExportColumn> = columns
        .iter()
        .enumerate()
        .map(|(i, (of, _))| ExportColumn {
            name: format!("c{i}"),
            value_type: of.clone(),
            is_raw: false,
        })
        .collect();
    let mut sink = create(path, format, &described, settings).unwrap();
    for row in 0..columns[0].1.len() {
        let values: Vec<_> = columns.iter().map(|(_, v)| v[row].as_deref()).collect();
        sink.row(&values).unwrap();
    }
    sink.finish().unwrap();
}

/// Reads the values of a file, and its types.
fn read(path: &Path, format: TransferFormat) -> Vec<ColumnValues> {
    let mut source = open(path, format, &SourceOptions::default()).unwrap();
    let types: Vec<Type> = source.columns().iter().map(|c| c.value_type.clone().unwrap()).collect();
    let found = rows(&mut *source, 0).unwrap();
    assert!(found.bad.is_empty(), "{:?}", found.bad);
    let value = |cell: &SourceCell| match cell {
        SourceCell::Null => None,
        SourceCell::Value(v) => Some(v.clone()),
        other => panic!("{other:?}"),
    };
    let column = |i: usize| found.rows.iter().map(|row| value(&row[i])).collect();
    types.into_iter().enumerate().map(|(i, of)| (of, column(i))).collect()
}

/// Returns the type without the keyspaces of its user types, which files do not have.
fn without_keyspace(of: &Type) -> String {
    format!("{of:?}").replace("keyspace: \"ks\"", "keyspace: \"\"")
}

fn come_back(columns: &[ColumnValues], name: &str) {
    let temp = Temp::new(name);
    for format in FORMATS {
        let path = temp.path("file");
        write(&path, format, columns, &ExportSettings::default());
        for ((of, wanted), (found_type, found)) in columns.iter().zip(read(&path, format)) {
            assert_eq!(without_keyspace(of), without_keyspace(&found_type), "{format:?}");
            for (wanted, found) in wanted.iter().zip(found) {
                let text = wanted.as_ref().map(|v| plain(of, v));
                assert_eq!(*wanted, found, "{format:?} {of:?} {text:?}");
            }
        }
    }
}

#[test]
fn every_type_comes_back_with_its_ends_and_nulls() {
    let mut columns: Vec<ColumnValues> = vec![];
    for (of, values) in scalars() {
        for bytes in values {
            for (of, bytes) in wrapped(&of, &bytes) {
                let values = vec![Some(bytes), None];
                match columns.iter_mut().find(|(known, all)| *known == of && all.len() < 40) {
                    Some((_, all)) => all.extend(values),
                    None => columns.push((of, values)),
                }
            }
        }
    }
    let longest = columns.iter().map(|c| c.1.len()).max().unwrap();
    columns.iter_mut().for_each(|c| c.1.resize(longest, None));
    assert!(columns.len() > 130, "{}", columns.len());
    come_back(&columns, "every-type");
}

#[test]
fn compressions_and_large_files_come_back() {
    let temp = Temp::new("compressions");
    let numbers = (0..40_000_i64).map(|n| (n % 3 > 0).then(|| n.to_be_bytes().to_vec()));
    let texts = (0..40_000).map(|n| Some("x".repeat(n % 300).into_bytes()));
    let columns = vec![(Type::Long, numbers.collect()), (Type::Utf8, texts.collect())];
    for format in FORMATS {
        for compression in ExportCompression::value_variants() {
            let is_other =
                matches!(compression, ExportCompression::Snappy | ExportCompression::Gzip);
            if is_other && format == TransferFormat::ArrowIpc {
                continue;
            }
            let settings =
                ExportSettings { compression: Some(*compression), ..ExportSettings::default() };
            let path = temp.path("file");
            write(&path, format, &columns, &settings);
            assert_eq!(read(&path, format), columns, "{format:?} {compression:?}");
            // A resumed import skips rows.
            let mut source = open(&path, format, &SourceOptions::default()).unwrap();
            let rest = rows(&mut *source, 39_998).unwrap().rows;
            assert_eq!(rest.len(), 2);
            assert_eq!(rest[1][1], SourceCell::Value("x".repeat(39_999 % 300).into_bytes()));
        }
    }
}

#[test]
fn decimals_may_have_a_fixed_scale() {
    let temp = Temp::new("decimals");
    let (path, scale) = (temp.path("file"), Some(3));
    let settings = ExportSettings { decimal_scale: scale, ..ExportSettings::default() };
    let values = vec![Some([&2_i32.to_be_bytes()[..], &[0xff, 0x6a]].concat())];
    write(&path, TransferFormat::Parquet, &[(Type::Decimal, values.clone())], &settings);
    let found = read(&path, TransferFormat::Parquet);
    assert_eq!(plain(&Type::Decimal, values[0].as_ref().unwrap()), "-1.50");
    assert_eq!(plain(&Type::Decimal, found[0].1[0].as_ref().unwrap()), "-1.500");
    // A number with more digits is an error with its place.
    let column = ExportColumn { name: "n".into(), value_type: Type::Decimal, is_raw: false };
    let mut sink = create(&path, TransferFormat::Parquet, &[column], &settings).unwrap();
    let fine = [&5_i32.to_be_bytes()[..], &[1]].concat();
    let said = message(sink.row(&[Some(&fine)]).unwrap_err());
    assert!(said.starts_with("row 1, column n: a number does not fit"), "{said}");
}

#[test]
fn damaged_files_are_errors() {
    let temp = Temp::new("damaged");
    let numbers = (0..3_000_i64).map(|n| Some(n.to_be_bytes().to_vec())).collect();
    let texts = (0..3_000).map(|n| Some(format!("text {n}").into_bytes())).collect();
    let columns = vec![(Type::Long, numbers), (Type::Utf8, texts)];
    for format in FORMATS {
        let path = temp.path("file");
        write(&path, format, &columns, &ExportSettings::default());
        let whole = common::read(&path);
        let look = |bytes: &[u8]| {
            let path = temp.file("damaged", bytes);
            let mut source = open(&path, format, &SourceOptions::default())?;
            rows(&mut *source, 0).map(|found| found.rows.len())
        };
        assert_eq!(look(&whole).unwrap(), 3_000);
        for end in (0..whole.len()).step_by(whole.len() / 60) {
            let said = message(look(&whole[..end]).unwrap_err());
            assert!(said.contains("damaged: ") || said.contains("damaged"), "{said}");
        }
        // A flipped byte must not panic; checksums are optional in both formats.
        for at in (0..whole.len()).step_by(whole.len() / 60) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            let found = look(&bytes);
            assert!(found.is_err() || found.is_ok_and(|rows| rows <= 3_000), "byte {at}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_value_comes_back(random: [u8; 20], text: String, len in 1_usize..=20) {
        let mut columns: Vec<ColumnValues> = vec![];
        for (of, _) in scalars() {
            let bytes = match of {
                Type::Utf8 | Type::Ascii => text.as_bytes(),
                _ => match of.validate(&random[..len]) {
                    Ok(()) => &random[..len],
                    Err(_) => continue,
                },
            };
            // These have several encodings of a value, of which the shortest comes back.
            let is_unique = !matches!(of, Type::Boolean | Type::Integer | Type::Decimal | Type::Duration);
            if is_unique && of.validate(bytes).is_ok() {
                for (of, bytes) in wrapped(&of, bytes) {
                    if split(&of, &bytes).is_ok() || !of.has_parts() {
                        columns.push((of, vec![None, Some(bytes)]));
                    }
                }
            }
        }
        come_back(&columns, "any-value");
    }
}
