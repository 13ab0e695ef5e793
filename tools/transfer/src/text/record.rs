//! Records from TSV, CSV and JSON lines.
//!
//! A reader yields one key and one value per record with its line number. It reports a bad record
//! with its line number and continues after it. Memory is bounded by the longest record. A line may
//! have [`MAX_LINE`] bytes.
//!
//! | format | default key | default value |
//! |---|---|---|
//! | TSV | the first column | the rest of the line after the first tab |
//! | CSV | the first column | the only other column, or a JSON object of the others |
//! | JSON lines | field `key` or `key_hex` | field `value` or `value_hex`, or the whole line |
//!
//! A JSON line with further fields has the whole line as its value.

use std::io::{self, BufRead, BufReader, Read};

use clap::ValueEnum;
use csv::ByteRecord;
use serde_json::{Map, Value};

use firn_tools::escape;

/// Maximum line length: a key and a value of maximum length fit, with each byte escaped as `\xNN`.
pub const MAX_LINE: usize = 4 * (firn_kv::MAX_KEY_LEN + firn_kv::MAX_VALUE_LEN) + 16;

/// Format of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Lines of columns separated by tabs; see below for escapes
    Tsv,
    /// Comma-separated values with a header
    Csv,
    /// One JSON object per line
    Json,
    /// Stanzas of `Field: value` lines, like Debian's package lists (for --family)
    Deb822,
}

impl Format {
    /// Returns the format of a file extension.
    pub fn of_extension(extension: &str) -> Option<Format> {
        match extension.to_ascii_lowercase().as_str() {
            "tsv" | "tab" => Some(Format::Tsv),
            "csv" => Some(Format::Csv),
            "json" | "jsonl" | "ndjson" => Some(Format::Json),
            "deb822" => Some(Format::Deb822),
            _ => None,
        }
    }
}

/// Conversion of fields to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// TSV escapes are decoded; CSV and JSON texts are unchanged.
    Text,
    /// No escapes, in TSV either.
    Raw,
    /// Keys and values are hexadecimal.
    Hex,
}

/// Selection of the key and value of records.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Column or field of the key.
    pub key: Option<String>,
    /// Columns or fields of the value.
    pub value: RecordValues,
    /// Whether the first line names the columns (TSV and CSV).
    pub header: bool,
    /// Conversion of fields to bytes.
    pub coding: Coding,
}

/// See [`Choice::value`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordValues {
    /// The default of the format.
    Rest,
    /// One column or field.
    One(String),
    /// Several: joined by tabs for TSV, as a JSON object for CSV and JSON lines.
    Many(Vec<String>),
}

/// One record.
#[derive(Debug, Default)]
pub struct Record {
    /// Key.
    pub key: Vec<u8>,
    /// Value.
    pub value: Vec<u8>,
    /// Number of its first line, from 1.
    pub line: u64,
}

/// Reason why there is no record.
#[derive(Debug)]
pub enum RecordTrouble {
    /// This line is not a record; the next call continues after it.
    Bad {
        /// Line number.
        line: u64,
        /// Error message.
        why: String,
    },
    /// The rest of the input is unreadable.
    Io(io::Error),
}

impl From<io::Error> for RecordTrouble {
    fn from(e: io::Error) -> Self {
        RecordTrouble::Io(e)
    }
}

/// Reader of records.
pub enum Records<R: Read> {
    /// TSV.
    Tsv(RecordLines<R>, RecordColumns, Coding),
    /// CSV.
    Csv(Box<CsvRecords<R>>),
    /// JSON lines.
    Json(RecordLines<R>, Choice),
}

impl<R: Read> Records<R> {
    /// Creates a reader; reads the header if there is one.
    pub fn new(source: R, format: Format, choice: Choice) -> Result<Self, RecordTrouble> {
        match format {
            Format::Json => Ok(Records::Json(RecordLines::new(source), choice)),
            Format::Tsv => {
                let mut lines = RecordLines::new(source);
                let mut names = vec![];
                if choice.header && lines.advance()? {
                    names = lines.text().split(|b| *b == b'\t').map(<[u8]>::to_vec).collect();
                }
                let columns = RecordColumns::new(&choice, names)
                    .map_err(|why| RecordTrouble::Bad { line: 1, why })?;
                Ok(Records::Tsv(lines, columns, choice.coding))
            }
            Format::Deb822 => {
                let why = "stanzas have no key and value: load them into a family, with --keyspace and --family".to_owned();
                Err(RecordTrouble::Bad { line: 1, why })
            }
            Format::Csv => {
                let mut reader =
                    csv::ReaderBuilder::new().has_headers(choice.header).from_reader(source);
                let names = if choice.header {
                    reader.byte_headers().map_err(csv_trouble)?.clone()
                } else {
                    ByteRecord::new()
                };
                let names = names.iter().map(<[u8]>::to_vec).collect();
                let columns = RecordColumns::new(&choice, names)
                    .map_err(|why| RecordTrouble::Bad { line: 1, why })?;
                Ok(Records::Csv(Box::new(CsvRecords {
                    reader,
                    record: ByteRecord::new(),
                    columns,
                    coding: choice.coding,
                })))
            }
        }
    }

    /// Reads the next record into `to`; returns `false` at the end.
    pub fn next(&mut self, to: &mut Record) -> Result<bool, RecordTrouble> {
        to.key.clear();
        to.value.clear();
        match self {
            Records::Tsv(lines, columns, coding) => {
                if !lines.advance()? {
                    return Ok(false);
                }
                to.line = lines.number;
                tsv(lines.text(), columns, *coding, to)
                    .map_err(|why| RecordTrouble::Bad { line: lines.number, why })?;
                Ok(true)
            }
            Records::Csv(csv) => csv.next(to),
            Records::Json(lines, choice) => {
                while lines.advance()? {
                    let text = lines.text().trim_ascii();
                    if !text.is_empty() {
                        to.line = lines.number;
                        json(text, choice, to)
                            .map_err(|why| RecordTrouble::Bad { line: lines.number, why })?;
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }
}

/// Reader of lines of bounded length.
pub struct RecordLines<R: Read> {
    source: BufReader<R>,
    line: Vec<u8>,
    number: u64,
}

impl<R: Read> RecordLines<R> {
    /// Creates a reader of a source.
    pub fn new(source: R) -> Self {
        RecordLines { source: BufReader::with_capacity(256 << 10, source), line: vec![], number: 0 }
    }

    /// Reads a line; returns `false` at the end of the file.
    pub fn advance(&mut self) -> Result<bool, RecordTrouble> {
        self.line.clear();
        let (mut any, mut too_long) = (false, false);
        loop {
            let chunk = match self.source.fill_buf() {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if chunk.is_empty() {
                break;
            }
            any = true;
            let end = chunk.iter().position(|b| *b == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            too_long |= self.line.len() + part.len() > MAX_LINE;
            if !too_long {
                self.line.extend_from_slice(part);
            }
            let used = end.map_or(chunk.len(), |e| e + 1);
            self.source.consume(used);
            if end.is_some() {
                break;
            }
        }
        self.number += u64::from(any);
        if too_long {
            return Err(RecordTrouble::Bad {
                line: self.number,
                why: format!("it has more than {MAX_LINE} bytes"),
            });
        }
        Ok(any)
    }

    /// Returns the line number, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the line without its end: a line feed, or carriage return and line feed.
    pub fn text(&self) -> &[u8] {
        self.line.strip_suffix(b"\r").unwrap_or(&self.line)
    }
}

/// Selected columns of a table, by position from 0.
pub struct RecordColumns {
    names: Vec<Vec<u8>>,
    key: usize,
    value: Option<Vec<usize>>,
    /// Whether the value is one column, unchanged.
    single: bool,
}

impl RecordColumns {
    fn new(choice: &Choice, names: Vec<Vec<u8>>) -> Result<Self, String> {
        let find = |name: &String| -> Result<usize, String> {
            if let Some(i) = names.iter().position(|n| n == name.as_bytes()) {
                return Ok(i);
            }
            match name.parse::<usize>() {
                Ok(n) if n > 0 && (names.is_empty() || n <= names.len()) => Ok(n - 1),
                _ if names.is_empty() => {
                    Err(format!("{name:?} is not a column number, and the columns have no names"))
                }
                _ => {
                    let list: Vec<String> = names.iter().map(|n| escape::words(n)).collect();
                    Err(format!("there is no column {name:?}; the header has {}", list.join(", ")))
                }
            }
        };
        let key = choice.key.as_ref().map_or(Ok(0), &find)?;
        let (value, single) = match &choice.value {
            RecordValues::Rest => (None, false),
            RecordValues::One(name) => (Some(vec![find(name)?]), true),
            RecordValues::Many(list) => {
                (Some(list.iter().map(find).collect::<Result<_, _>>()?), false)
            }
        };
        Ok(RecordColumns { names, key, value, single })
    }

    fn name(&self, i: usize) -> String {
        self.names
            .get(i)
            .map_or_else(|| format!("column{}", i + 1), |n| String::from_utf8_lossy(n).into_owned())
    }
}

fn put(field: &[u8], coding: Coding, out: &mut Vec<u8>) -> Result<(), String> {
    match coding {
        Coding::Text => escape::decode(field, out),
        Coding::Hex => escape::decode_hex(field, out),
        Coding::Raw => {
            out.extend_from_slice(field);
            Ok(())
        }
    }
}

fn no_column(i: usize, has: usize) -> String {
    format!("it has no column {}, only {has}", i + 1)
}

fn tsv(
    line: &[u8],
    columns: &RecordColumns,
    coding: Coding,
    to: &mut Record,
) -> Result<(), String> {
    if columns.key == 0 && columns.value.is_none() {
        let tab = line
            .iter()
            .position(|b| *b == b'\t')
            .ok_or("it has no tab, so no value after the key")?;
        put(&line[..tab], coding, &mut to.key)?;
        return put(&line[tab + 1..], coding, &mut to.value);
    }
    let fields: Vec<&[u8]> = line.split(|b| *b == b'\t').collect();
    let field = |i: usize| fields.get(i).copied().ok_or_else(|| no_column(i, fields.len()));
    put(field(columns.key)?, coding, &mut to.key)?;
    let rest: Vec<usize>;
    let taken = match &columns.value {
        Some(v) => v,
        None => {
            rest = (0..fields.len()).filter(|i| *i != columns.key).collect();
            &rest
        }
    };
    for (n, &i) in taken.iter().enumerate() {
        if n > 0 && coding != Coding::Hex {
            to.value.push(b'\t');
        }
        put(field(i)?, coding, &mut to.value)?;
    }
    Ok(())
}

/// Reader of CSV.
pub struct CsvRecords<R: Read> {
    reader: csv::Reader<R>,
    record: ByteRecord,
    columns: RecordColumns,
    coding: Coding,
}

/// Converts an error of a CSV line.
pub fn csv_trouble(e: csv::Error) -> RecordTrouble {
    let line = e.position().map_or(0, csv::Position::line);
    match e.into_kind() {
        csv::ErrorKind::Io(e) => RecordTrouble::Io(e),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => RecordTrouble::Bad {
            line,
            why: format!("it has {len} columns where the first line has {expected_len}"),
        },
        other => RecordTrouble::Bad { line, why: format!("{other:?}") },
    }
}

impl<R: Read> CsvRecords<R> {
    fn next(&mut self, to: &mut Record) -> Result<bool, RecordTrouble> {
        if !self.reader.read_byte_record(&mut self.record).map_err(csv_trouble)? {
            return Ok(false);
        }
        to.line = self.record.position().map_or(0, csv::Position::line);
        self.take(to).map_err(|why| RecordTrouble::Bad { line: to.line, why })?;
        Ok(true)
    }

    fn take(&self, to: &mut Record) -> Result<(), String> {
        let coding = if self.coding == Coding::Hex { Coding::Hex } else { Coding::Raw };
        let (record, columns) = (&self.record, &self.columns);
        let field = |i: usize| record.get(i).ok_or_else(|| no_column(i, record.len()));
        put(field(columns.key)?, coding, &mut to.key)?;
        let rest: Vec<usize>;
        let (taken, single) = match &columns.value {
            Some(v) => (v, columns.single),
            None => {
                rest = (0..record.len()).filter(|i| *i != columns.key).collect();
                (&rest, rest.len() == 1)
            }
        };
        if let ([one], true) = (&taken[..], single) {
            return put(field(*one)?, coding, &mut to.value);
        }
        let mut object = Map::new();
        for &i in taken {
            let text = std::str::from_utf8(field(i)?)
                .map_err(|_| format!("column {} is no UTF-8, so no JSON", i + 1))?;
            object.insert(columns.name(i), Value::from(text));
        }
        to.value.extend(Value::Object(object).to_string().into_bytes());
        Ok(())
    }
}

/// Writes the bytes of a field of a JSON object: the text of a string, the JSON of any other value.
/// If `NAME` is missing, uses `NAME_hex`.
fn json_field(
    object: &Map<String, Value>,
    name: &str,
    coding: Coding,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    match object.get(name) {
        Some(Value::String(s)) if coding == Coding::Hex => escape::decode_hex(s.as_bytes(), out),
        Some(Value::String(s)) => {
            out.extend_from_slice(s.as_bytes());
            Ok(())
        }
        Some(other) => {
            out.extend(other.to_string().into_bytes());
            Ok(())
        }
        None => match object.get(&format!("{name}_hex")) {
            Some(Value::String(s)) => escape::decode_hex(s.as_bytes(), out),
            _ => Err(format!("there is no field {name:?}")),
        },
    }
}

/// Describes a line that is not a JSON object.
pub fn not_an_object(text: &[u8], e: &serde_json::Error) -> String {
    let next = match text.trim_ascii_start().first() {
        Some(b'[') => "; `jq -c '.[]'` makes lines of an array",
        _ => "",
    };
    format!("it is no JSON object: {e}{next}")
}

fn json(text: &[u8], choice: &Choice, to: &mut Record) -> Result<(), String> {
    let object: Map<String, Value> =
        serde_json::from_slice(text).map_err(|e| not_an_object(text, &e))?;
    let key = choice.key.as_deref().unwrap_or("key");
    if matches!(object.get(key), Some(Value::Null | Value::Object(_) | Value::Array(_))) {
        return Err(format!("the field {key:?} is neither text nor a number"));
    }
    json_field(&object, key, choice.coding, &mut to.key)?;
    match &choice.value {
        RecordValues::One(name) => json_field(&object, name, choice.coding, &mut to.value),
        RecordValues::Many(names) => {
            let taken = names.iter().map(|n| {
                let field = object.get(n).ok_or_else(|| format!("there is no field {n:?}"))?;
                Ok((n.clone(), field.clone()))
            });
            let taken: Map<String, Value> = taken.collect::<Result<_, String>>()?;
            to.value.extend(Value::Object(taken).to_string().into_bytes());
            Ok(())
        }
        RecordValues::Rest
            if object.len() == 2
                && (object.contains_key("value") || object.contains_key("value_hex")) =>
        {
            json_field(&object, "value", choice.coding, &mut to.value)
        }
        RecordValues::Rest => {
            to.value.extend_from_slice(text);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice() -> Choice {
        Choice { key: None, value: RecordValues::Rest, header: false, coding: Coding::Text }
    }

    /// Returns each record as `key=value`, and each bad line as `line!why`.
    fn read(text: &[u8], format: Format, choice: Choice) -> Vec<String> {
        let mut records = Records::new(text, format, choice).unwrap_or_else(|e| panic!("{e:?}"));
        let (mut to, mut out) = (Record::default(), vec![]);
        loop {
            match records.next(&mut to) {
                Ok(false) => return out,
                Ok(true) => {
                    out.push(format!("{}={}", to.key.escape_ascii(), to.value.escape_ascii()))
                }
                Err(RecordTrouble::Bad { line, why }) => out.push(format!("{line}!{why}")),
                Err(RecordTrouble::Io(e)) => panic!("{e}"),
            }
        }
    }

    #[test]
    fn an_array_of_objects_gets_a_hint() {
        let e = serde_json::from_slice::<Map<String, Value>>(b" [{}]").unwrap_err();
        assert!(not_an_object(b" [{}]", &e).contains("jq -c '.[]'"));
        assert!(!not_an_object(b"7", &e).contains("jq"));
    }

    #[test]
    fn tsv_is_key_and_rest() {
        let got = read(b"a\t1\r\nb\t2\t3\nc\\t\t\\\\n\n\tempty key\nlast\t", Format::Tsv, choice());
        assert_eq!(got, ["a=1", "b=2\\t3", "c\\t=\\\\n", "=empty key", "last="]);
        let got = read(b"a\t1\nno tab\n\nb\t\\q\nc\t3\n", Format::Tsv, choice());
        let no_tab = "it has no tab, so no value after the key";
        assert_eq!(
            got,
            [
                "a=1",
                &format!("2!{no_tab}"),
                &format!("3!{no_tab}"),
                "4!the unknown escape \\q",
                "c=3"
            ]
        );
        let raw = Choice { coding: Coding::Raw, ..choice() };
        assert_eq!(read(b"a\tC:\\q\n", Format::Tsv, raw), ["a=C:\\\\q"]);
        let hex = Choice { coding: Coding::Hex, ..choice() };
        assert_eq!(
            read(b"00ff\t61\n0\t\n", Format::Tsv, hex),
            ["\\x00\\xff=a", "2!an odd number of hexadecimal digits"]
        );
    }

    #[test]
    fn tsv_columns_can_be_chosen() {
        let text = b"id\tname\tsize\n7\tann\t3\n8\tbob\n";
        let named = Choice { key: Some("name".into()), header: true, ..choice() };
        assert_eq!(read(text, Format::Tsv, named.clone()), ["ann=7\\t3", "bob=8"]);
        let one = Choice { value: RecordValues::One("3".into()), ..named.clone() };
        assert_eq!(read(text, Format::Tsv, one), ["ann=3", "3!it has no column 3, only 2"]);
        let many = Choice { value: RecordValues::Many(vec!["size".into(), "id".into()]), ..named };
        assert_eq!(read(text, Format::Tsv, many), ["ann=3\\t7", "3!it has no column 3, only 2"]);
        let missing = Choice { key: Some("nam".into()), header: true, ..choice() };
        assert!(
            matches!(Records::new(&text[..], Format::Tsv, missing), Err(RecordTrouble::Bad { line: 1, why }) if why.contains("id, name, size"))
        );
    }

    #[test]
    fn csv_is_quoted_text() {
        let header = Choice { header: true, ..choice() };
        let text = b"k,v\na,\"x,\"\"y\"\"\nz\"\nb,\\t\n";
        assert_eq!(read(text, Format::Csv, header.clone()), ["a=x,\\\"y\\\"\\nz", "b=\\\\t"]);
        let text = b"k,v,w\na,1,2\nb,3\nc,4,5\n";
        let got = read(text, Format::Csv, header.clone());
        assert_eq!(got[0], "a={\\\"v\\\":\\\"1\\\",\\\"w\\\":\\\"2\\\"}");
        assert_eq!(got[1], "3!it has 2 columns where the first line has 3");
        assert_eq!(got.len(), 3);
        let one = Choice { value: RecordValues::One("w".into()), key: Some("v".into()), ..header };
        assert_eq!(read(text, Format::Csv, one)[0], "1=2");
    }

    #[test]
    fn json_is_fields_or_the_line() {
        let text = br#"{"key":"a","value":"x\n"}
            {"key_hex":"00ff","value_hex":"61"}

            {"key":"b","value":1,"more":[1]}
            {"key":7,"value":{"x":null}}
            {"kee":"c"}
            [1]
            {"key":null,"value":""}"#;
        let got = read(text, Format::Json, choice());
        assert_eq!(got[..2], ["a=x\\n", "\\x00\\xff=a"]);
        assert_eq!(got[2], r#"b={"key":"b","value":1,"more":[1]}"#.replace('"', "\\\""));
        assert_eq!(got[3], "7={\\\"x\\\":null}");
        assert_eq!(got[4], "6!there is no field \"key\"");
        assert!(got[5].starts_with("7!it is no JSON object"), "{}", got[5]);
        assert_eq!(got[6], "8!the field \"key\" is neither text nor a number");
        let many = Choice { value: RecordValues::Many(vec!["more".into()]), ..choice() };
        assert_eq!(read(&text[..], Format::Json, many)[2], "b={\\\"more\\\":[1]}");
    }
}
