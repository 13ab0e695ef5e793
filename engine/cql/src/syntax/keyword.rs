//! Keywords, with lookup that does not allocate.
//!
//! Unreserved keywords of Cassandra's grammar that this grammar does not use are plain identifiers
//! here. Cassandra's reserved keywords are reserved here too, so that a schema created here can be
//! created in Cassandra.

/// Other uses of a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeywordClass {
    /// None: as a name it must be quoted.
    Reserved,
    /// A name, except of a user-defined type or a function.
    Name,
    /// A native type; also a name, except of a user-defined type.
    Type,
    /// Any name.
    Free,
}

macro_rules! keywords {
    ($($class:ident { $($word:ident $text:literal)* })*) => {
        /// A keyword.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Keyword {
            $($(#[doc = concat!("`", $text, "`")] $word,)*)*
        }

        const ALL: &[(Keyword, &str, KeywordClass)] = &[$($((Keyword::$word, $text, KeywordClass::$class),)*)*];
    };
}

keywords! {
    Reserved {
        Add "ADD" Allow "ALLOW" Alter "ALTER" And "AND" Apply "APPLY" Asc "ASC" Authorize "AUTHORIZE" Batch "BATCH" Begin "BEGIN"
        By "BY" ColumnFamily "COLUMNFAMILY" Create "CREATE" Delete "DELETE" Desc "DESC" Describe "DESCRIBE" Drop "DROP"
        Entries "ENTRIES" Execute "EXECUTE" False "FALSE" From "FROM" Full "FULL" Grant "GRANT" If "IF" In "IN" Index "INDEX"
        Infinity "INFINITY" Insert "INSERT" Into "INTO" Is "IS" Keyspace "KEYSPACE" Limit "LIMIT" Materialized "MATERIALIZED"
        Modify "MODIFY" Nan "NAN" NoRecursive "NORECURSIVE" Not "NOT" Null "NULL" Of "OF" On "ON" Or "OR" Order "ORDER"
        Primary "PRIMARY" Rename "RENAME" Revoke "REVOKE" Schema "SCHEMA" Select "SELECT" Set "SET" Table "TABLE" To "TO"
        Token "TOKEN" True "TRUE" Truncate "TRUNCATE" Unlogged "UNLOGGED" Update "UPDATE" Use "USE" Using "USING" View "VIEW"
        Where "WHERE" With "WITH"
    }
    Name {
        Cast "CAST" Count "COUNT" Distinct "DISTINCT" Json "JSON" Key "KEY" MaxWriteTime "MAXWRITETIME" Ttl "TTL"
        WriteTime "WRITETIME"
    }
    Type {
        Ascii "ASCII" BigInt "BIGINT" Blob "BLOB" Boolean "BOOLEAN" Counter "COUNTER" Date "DATE" Decimal "DECIMAL"
        Double "DOUBLE" Duration "DURATION" Float "FLOAT" Inet "INET" Int "INT" SmallInt "SMALLINT" Text "TEXT" Time "TIME"
        Timestamp "TIMESTAMP" TimeUuid "TIMEUUID" TinyInt "TINYINT" Uuid "UUID" VarChar "VARCHAR" VarInt "VARINT"
    }
    Free {
        Aggregate "AGGREGATE" Aggregates "AGGREGATES" As "AS" Between "BETWEEN" Cluster "CLUSTER" Clustering "CLUSTERING"
        ColumnFamilies "COLUMNFAMILIES" Compact "COMPACT" Contains "CONTAINS" Custom "CUSTOM" Default "DEFAULT" Exists "EXISTS"
        Filtering "FILTERING" Frozen "FROZEN" Function "FUNCTION" Functions "FUNCTIONS" Group "GROUP" Internals "INTERNALS"
        Keys "KEYS" Keyspaces "KEYSPACES" Like "LIKE" List "LIST" Map "MAP" Only "ONLY" Partition "PARTITION" Per "PER"
        Static "STATIC" Storage "STORAGE" Tables "TABLES" Tuple "TUPLE" Type "TYPE" Types "TYPES" Unset "UNSET" Values "VALUES"
        Vector "VECTOR"
    }
}

const SLOTS: usize = 512;
const EMPTY: u8 = u8::MAX;
/// Mask that converts upper case to lower case, leaves digits unchanged, and maps `_` to a byte
/// that no keyword has.
const FOLD: u128 = 0x2020_2020_2020_2020_2020_2020_2020_2020;
/// Hash table from words to keywords, with linear probing.
const TABLE: [u8; SLOTS] = table();
/// Words as integers, in the order of `ALL`.
const PACKED: [u128; ALL.len()] = packed();

const fn packed() -> [u128; ALL.len()] {
    let mut out = [0; ALL.len()];
    let mut i = 0;
    while i < ALL.len() {
        let word = ALL[i].1.as_bytes();
        let mut j = 0;
        while j < word.len() {
            out[i] |= ((word[j] | 0x20) as u128) << (8 * j);
            j += 1;
        }
        i += 1;
    }
    out
}

const fn slot(word: u128) -> usize {
    let mixed = (word as u64) ^ ((word >> 64) as u64).rotate_left(29);
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SLOTS.trailing_zeros())) as usize
}

const fn table() -> [u8; SLOTS] {
    let mut out = [EMPTY; SLOTS];
    let mut i = 0;
    while i < ALL.len() {
        let mut s = slot(PACKED[i]);
        while out[s] != EMPTY {
            s = (s + 1) % SLOTS;
        }
        out[s] = i as u8;
        i += 1;
    }
    out
}

impl Keyword {
    /// Returns the keyword in `text[start..end]`, ignoring case. The range must consist of ASCII
    /// letters, digits and `_`.
    #[inline]
    pub fn find(text: &[u8], start: usize, end: usize) -> Option<Keyword> {
        let len = end - start;
        if !(2..=15).contains(&len) {
            return None;
        }
        let bytes = text.get(start..)?;
        let raw = match bytes.first_chunk::<16>() {
            Some(chunk) => u128::from_le_bytes(*chunk),
            None => bytes.iter().rev().fold(0, |word, &b| word << 8 | b as u128),
        };
        let word = (raw | FOLD) & ((1 << (8 * len)) - 1);
        let mut s = slot(word);
        while TABLE[s] != EMPTY {
            let i = TABLE[s] as usize;
            if PACKED[i] == word {
                return Some(ALL[i].0);
            }
            s = (s + 1) % SLOTS;
        }
        None
    }

    /// Returns the keyword that equals a whole word.
    pub fn of(word: &str) -> Option<Keyword> {
        Keyword::find(word.as_bytes(), 0, word.len())
    }

    /// Returns the keyword in upper case.
    pub fn text(self) -> &'static str {
        ALL[self as usize].1
    }

    /// Returns its class.
    pub fn class(self) -> KeywordClass {
        ALL[self as usize].2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keyword_is_found_in_any_case_and_nothing_else() {
        for &(keyword, text, _) in ALL {
            assert_eq!(Keyword::of(text), Some(keyword));
            assert_eq!(Keyword::of(&text.to_lowercase()), Some(keyword));
            let longer = format!("{text}; and more than sixteen bytes");
            assert_eq!(Keyword::find(longer.as_bytes(), 0, text.len()), Some(keyword));
            assert_eq!(
                Keyword::of(&format!("{text}x")).filter(|k| k.text().len() == text.len()),
                None
            );
            assert_eq!(Keyword::of(&format!("{text}_")), None);
            assert_eq!(Keyword::of(&format!("{}0", &text[1..])), None);
        }
        for word in
            ["", "a", "sel_ct", "a_name_of_more_than_sixteen_bytes", "maxwritetimemaxw", "selec7"]
        {
            assert_eq!(Keyword::of(word), None, "{word}");
        }
        assert!(ALL.len() < EMPTY as usize);
    }
}
