//! CSV, TSV and JSON lines: every type comes back exactly, and bad lines are reported.
#![allow(clippy::disallowed_methods, reason = "files of tests")]

use super::common::{Temp, message, read, rows, scalars, wrapped};

use firn_transfer::export::{ExportColumn, ExportSettings, create};
use firn_transfer::format::TransferFormat;
use firn_transfer::source::{RowPlace, SourceCell, SourceOptions, open};
use firn_transfer::text::{Choice, Coding, RecordValues, from_field};
use firn_wide::Type;

fn column(name: &str, of: &Type, is_raw: bool) -> ExportColumn {
    ExportColumn { name: name.into(), value_type: of.clone(), is_raw }
}

#[test]
fn every_type_comes_back_with_its_ends_and_nulls() {
    let temp = Temp::new("texts");
    let settings = ExportSettings { null: "\\N!".into(), header: true, ..Default::default() };
    for format in [TransferFormat::Csv, TransferFormat::JsonLines] {
        let path = temp.path("file");
        let (mut columns, mut values) = (vec![], vec![]);
        for (of, all) in scalars() {
            for (of, bytes) in all.iter().flat_map(|bytes| wrapped(&of, bytes)) {
                columns.push(column(&format!("C{}", columns.len()), &of, false));
                values.push(Some(bytes));
            }
        }
        let mut sink = create(&path, format, &columns, &settings).unwrap();
        sink.row(&values.iter().map(Option::as_deref).collect::<Vec<_>>()).unwrap();
        sink.row(&vec![None; values.len()]).unwrap();
        assert!(sink.finish().unwrap().is_empty());
        let options = SourceOptions { null: "\\N!".into(), header: true, ..Default::default() };
        let mut source = open(&path, format, &options).unwrap();
        assert_eq!(source.columns().len(), columns.len());
        let found = rows(&mut *source, 0).unwrap().rows;
        assert_eq!(found.len(), 2);
        assert!(found[1].iter().all(|cell| *cell == SourceCell::Null));
        for (i, column) in columns.iter().enumerate() {
            let at = source.columns().iter().position(|c| c.name == column.name).unwrap();
            let read = match &found[0][at] {
                SourceCell::Text(text) => from_field(&column.value_type, text, false),
                SourceCell::Json(text) => from_field(&column.value_type, text, true),
                other => panic!("{other:?}"),
            };
            assert_eq!(read.as_ref().ok(), values[i].as_ref(), "{format:?} {column:?} {read:?}");
        }
    }
}

#[test]
fn values_like_null_are_noted() {
    let temp = Temp::new("like-null");
    let settings = ExportSettings { header: true, ..Default::default() };
    let path = temp.path("file.csv");
    let columns = [column("a", &Type::Utf8, false), column("b", &Type::Int32, false)];
    let mut sink = create(&path, TransferFormat::Csv, &columns, &settings).unwrap();
    sink.row(&[Some(b""), Some(&[0, 0, 0, 7])]).unwrap();
    sink.row(&[None, None]).unwrap();
    let notes = sink.finish().unwrap();
    assert!(notes[0].starts_with("1 value is written like null"), "{notes:?}");
    assert_eq!(String::from_utf8(read(&path)).unwrap(), "a,b\n,7\n,\n");
}

#[test]
fn pairs_of_bytes_come_back() {
    let temp = Temp::new("pairs");
    let pairs: [(&[u8], &[u8]); 4] =
        [(b"", b"\0\xff"), (b"a,\"b\"", b"x\ty\n"), (b"\xfe", b""), (b"plain", b"value")];
    for format in [TransferFormat::Csv, TransferFormat::Tsv, TransferFormat::JsonLines] {
        let path = temp.path("file");
        let columns = [column("key", &Type::Bytes, true), column("value", &Type::Bytes, true)];
        let header = format == TransferFormat::Csv;
        let settings = ExportSettings { header, ..Default::default() };
        let mut sink = create(&path, format, &columns, &settings).unwrap();
        pairs.iter().for_each(|(k, v)| sink.row(&[Some(k), Some(v)]).unwrap());
        sink.finish().unwrap();
        let choice = Choice { key: None, value: RecordValues::Rest, header, coding: Coding::Text };
        let options = SourceOptions { pairs: Some(choice), ..Default::default() };
        let found = rows(&mut *open(&path, format, &options).unwrap(), 0).unwrap();
        assert!(found.bad.is_empty(), "{:?}", found.bad);
        let text = |b: &[u8]| SourceCell::Text(b.to_vec());
        let wanted: Vec<_> = pairs.iter().map(|(k, v)| vec![text(k), text(v)]).collect();
        assert_eq!(found.rows, wanted, "{format:?}");
    }
}

#[test]
fn bad_lines_have_numbers_and_others_follow() {
    let temp = Temp::new("bad-lines");
    let csv = temp.file("a.csv", b"id,name\n1,a\n2\n3,\"c\nc\"\n4,d,e\n5,f\n");
    let options = SourceOptions { header: true, ..Default::default() };
    let mut source = open(&csv, TransferFormat::Csv, &options).unwrap();
    let found = rows(&mut *source, 0).unwrap();
    assert_eq!(found.rows.len(), 3);
    let places: Vec<RowPlace> = found.bad.iter().map(|b| b.0).collect();
    assert_eq!(places, [RowPlace::Line(3), RowPlace::Line(6)]);
    assert!(found.bad[0].1.contains("it has 1 columns where the first line has 2"));
    // Bad lines count, so a resumed import begins after them.
    let rest = rows(&mut *source, 2).unwrap();
    assert_eq!((rest.rows.len(), rest.bad.len()), (2, 1));
    let json = temp.file("a.jsonl", b"{\"id\":1}\n{\"id\":\n{\"id\":2}\n");
    let found = rows(&mut *open(&json, TransferFormat::JsonLines, &options).unwrap(), 0).unwrap();
    assert_eq!((found.rows.len(), found.bad[0].0), (2, RowPlace::Line(2)));
    let empty = temp.file("empty.jsonl", b"");
    let said = open(&empty, TransferFormat::JsonLines, &options).err().map(message);
    assert!(said.is_some_and(|said| said.contains("has no columns")));
}

#[test]
fn json_lines_have_types() {
    let temp = Temp::new("json-types");
    let text = br#"{"i":1,"d":1,"s":"007","b":true,"n":null,"big":123456789012345678901}
        {"i":-2,"d":1.5,"s":"8","b":false,"mixed":1,"big":1}
        {"mixed":"x","list":[1]}"#;
    let path = temp.file("a.jsonl", text);
    let source = open(&path, TransferFormat::JsonLines, &SourceOptions::default()).unwrap();
    let found: Vec<_> =
        source.columns().iter().map(|c| (&*c.name, c.value_type.clone().unwrap())).collect();
    for (name, of) in [
        ("i", Type::Long),
        ("d", Type::Double),
        ("s", Type::Utf8),
        ("b", Type::Boolean),
        ("big", Type::Integer),
        ("mixed", Type::Utf8),
        ("list", Type::Utf8),
    ] {
        assert!(found.contains(&(name, of)), "{name} {found:?}");
    }
    assert!(found.iter().all(|(name, _)| *name != "n"));
}
