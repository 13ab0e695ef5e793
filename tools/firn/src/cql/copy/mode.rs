//! Options of `COPY`: those of cqlsh, and `FORMAT`.

use std::borrow::Cow;
use std::path::PathBuf;

use super::values::ValueForms;
use firn_transfer::text::Format;

/// Rows of a page.
const PAGE: usize = 1000;
/// Options of both directions.
const OF_BOTH: [&str; 11] = [
    "HEADER",
    "DELIMITER",
    "QUOTE",
    "ESCAPE",
    "NULL",
    "DATETIMEFORMAT",
    "BOOLSTYLE",
    "DECIMALSEP",
    "THOUSANDSSEP",
    "CHUNKSIZE",
    "PAGESIZE",
];
/// Options of `COPY FROM`.
const OF_READING: [&str; 8] = [
    "SKIPROWS",
    "SKIPCOLS",
    "MAXROWS",
    "MAXPARSEERRORS",
    "MAXINSERTERRORS",
    "ERRFILE",
    "TTL",
    "FORMAT",
];
/// Options of `COPY TO`.
const OF_WRITING: [&str; 5] =
    ["BEGINTOKEN", "ENDTOKEN", "MAXOUTPUTSIZE", "FLOATPRECISION", "DOUBLEPRECISION"];
/// Options for the parallel processes of cqlsh: accepted, without effect.
const WITHOUT_EFFECT: [&str; 10] = [
    "NUMPROCESSES",
    "INGESTRATE",
    "MAXBATCHSIZE",
    "MINBATCHSIZE",
    "MAXATTEMPTS",
    "MAXREQUESTS",
    "REPORTFREQUENCY",
    "PAGETIMEOUT",
    "PREPAREDSTATEMENTS",
    "RATEFILE",
];

/// Limits on refused rows. Without any of them, the first refused row ends the command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusalLimits {
    /// Maximum number of rows that cannot be parsed; an inner `None` is any number.
    pub parse: Option<Option<u64>>,
    /// Maximum number of rows that the database refuses.
    pub insert: Option<Option<u64>>,
    /// File of the refused rows.
    pub file: Option<PathBuf>,
}

impl RefusalLimits {
    /// Reports whether the command continues after a refused row.
    pub fn is_tolerant(&self) -> bool {
        *self != RefusalLimits::default()
    }
}

/// Options of a `COPY` command.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyMode {
    /// Whether the first line names the columns.
    pub header: bool,
    /// Separator of cells.
    pub delimiter: u8,
    /// Quote character of a cell that contains a delimiter.
    pub quote: u8,
    /// Escape character before a quote in a cell. `None`: a quote is doubled.
    pub escape: Option<u8>,
    /// Text of null.
    pub null: String,
    /// Rows of a batch.
    pub chunk: usize,
    /// Number of skipped rows.
    pub skip: u64,
    /// Skipped columns of the file.
    pub skip_columns: Vec<String>,
    /// Maximum number of rows to read.
    pub max: u64,
    /// Format of the file.
    pub format: Format,
    /// Formats of values.
    pub values: ValueForms,
    /// Time to live of the written rows, in seconds.
    pub ttl: Option<u32>,
    /// Limits on refused rows.
    pub refusals: RefusalLimits,
    /// Rows of a page.
    pub page: usize,
    /// Exports only rows with a greater token.
    pub begin_token: Option<String>,
    /// Exports only rows with this token or a smaller one.
    pub end_token: Option<String>,
    /// Maximum number of rows of a file.
    pub max_lines: Option<u64>,
}

impl Default for CopyMode {
    fn default() -> CopyMode {
        CopyMode {
            header: false,
            delimiter: b',',
            quote: b'"',
            escape: None,
            null: String::new(),
            chunk: 100,
            skip: 0,
            skip_columns: vec![],
            max: u64::MAX,
            format: Format::Csv,
            values: ValueForms::default(),
            ttl: None,
            refusals: RefusalLimits::default(),
            page: PAGE,
            begin_token: None,
            end_token: None,
            max_lines: None,
        }
    }
}

/// Parses a number of at least `least`; -1 means no limit.
fn count(option: &str, value: &str, least: u64) -> Result<Option<u64>, String> {
    if value == "-1" {
        return Ok(None);
    }
    match value.parse() {
        Ok(n) if n >= least => Ok(Some(n)),
        _ => Err(format!("{option} is a number of at least {least}, not '{value}'")),
    }
}

fn boolean(option: &str, value: &str) -> Result<bool, String> {
    let known = [("true", true), ("yes", true), ("false", false), ("no", false)];
    let found = known.iter().find(|(word, _)| word.eq_ignore_ascii_case(value));
    found.map(|f| f.1).ok_or_else(|| format!("{option} is true or false, not '{value}'"))
}

impl CopyMode {
    /// Sets an option of `COPY FROM` or of `COPY TO`.
    pub fn set(&mut self, option: &str, value: &str, is_reading: bool) -> Result<(), String> {
        let option = if option == "NULLVAL" { "NULL" } else { option };
        let (own, other) = if is_reading {
            (&OF_READING[..], &OF_WRITING[..])
        } else {
            (&OF_WRITING[..], &OF_READING[..])
        };
        if other.contains(&option) {
            let direction = if is_reading { "COPY TO" } else { "COPY FROM" };
            return Err(format!("{option} is an option of {direction}"));
        }
        let number =
            || value.parse::<u64>().map_err(|_| format!("{option} is a number, not '{value}'"));
        let digits = || {
            let digits = value.parse().ok().filter(|n| (1..=64).contains(n));
            digits
                .map(Some)
                .ok_or_else(|| format!("{option} is a number from 1 to 64, not '{value}'"))
        };
        let sign = || match value.as_bytes() {
            [b'\\', b't'] => Ok(b'\t'),
            [one] => Ok(*one),
            _ => Err(format!("{option} is one character, not '{value}'")),
        };
        match option {
            "HEADER" => self.header = boolean(option, value)?,
            "DELIMITER" => self.delimiter = sign()?,
            "QUOTE" => self.quote = sign()?,
            "ESCAPE" => self.escape = Some(sign()?),
            "NULL" => self.null = value.to_owned(),
            "CHUNKSIZE" => self.chunk = usize::try_from(number()?.clamp(1, 10_000)).unwrap_or(1),
            "SKIPROWS" => self.skip = number()?,
            "SKIPCOLS" => {
                self.skip_columns = value.split(',').map(|name| name.trim().to_owned()).collect();
            }
            "MAXROWS" => self.max = count(option, value, 0)?.unwrap_or(u64::MAX),
            "FORMAT" => self.format = format(value)?,
            "DATETIMEFORMAT" => self.values.set_datetime(value)?,
            "BOOLSTYLE" => self.values.set_booleans(value)?,
            "DECIMALSEP" => self.values.decimal = char::from(sign()?),
            "THOUSANDSSEP" if value.is_empty() => self.values.thousands = None,
            "THOUSANDSSEP" => self.values.thousands = Some(char::from(sign()?)),
            "FLOATPRECISION" => self.values.float_digits = digits()?,
            "DOUBLEPRECISION" => self.values.double_digits = digits()?,
            "TTL" => self.ttl = Some(u32::try_from(number()?).map_err(|e| e.to_string())?),
            "MAXPARSEERRORS" => self.refusals.parse = Some(count(option, value, 0)?),
            "MAXINSERTERRORS" => self.refusals.insert = Some(count(option, value, 0)?),
            "ERRFILE" => self.refusals.file = Some(PathBuf::from(value)),
            "PAGESIZE" => {
                self.page = usize::try_from(number()?.clamp(1, 100_000)).unwrap_or(PAGE);
            }
            "BEGINTOKEN" => self.begin_token = Some(token(option, value)?),
            "ENDTOKEN" => self.end_token = Some(token(option, value)?),
            "MAXOUTPUTSIZE" => self.max_lines = count(option, value, 1)?,
            "ENCODING" => {
                let plain: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
                if !plain.eq_ignore_ascii_case("utf8") {
                    return Err(format!("ENCODING is utf8, not '{value}': files are UTF-8"));
                }
            }
            _ if WITHOUT_EFFECT.contains(&option) => {}
            _ => {
                let known = [&OF_BOTH[..], own, &["ENCODING"], &WITHOUT_EFFECT[..]].concat();
                return Err(format!("there is no option {option}; there are {}", known.join(", ")));
            }
        }
        Ok(())
    }

    /// Escapes a text for the writer.
    pub fn escaped<'t>(&self, text: &'t str) -> Cow<'t, [u8]> {
        match self.escape.map(char::from) {
            Some(escape) => {
                Cow::Owned(text.replace(escape, &format!("{escape}{escape}")).into_bytes())
            }
            None => Cow::Borrowed(text.as_bytes()),
        }
    }
}

fn format(value: &str) -> Result<Format, String> {
    let known = [
        ("csv", Format::Csv),
        ("tsv", Format::Tsv),
        ("json", Format::Json),
        ("deb822", Format::Deb822),
    ];
    let found = known.iter().find(|(word, _)| word.eq_ignore_ascii_case(value));
    found.map(|f| f.1).ok_or_else(|| format!("FORMAT is csv, tsv, json or deb822, not '{value}'"))
}

/// Parses a token as statements write it: a number, or bytes in hex.
fn token(option: &str, value: &str) -> Result<String, String> {
    let is_hex = value.strip_prefix("0x").is_some_and(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
    if is_hex || value.parse::<i128>().is_ok() {
        return Ok(value.to_owned());
    }
    Err(format!("{option} is a token such as -9223372036854775808, not '{value}'"))
}
