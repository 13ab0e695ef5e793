//! Texts of `help`: a page for each statement, with an example.

use std::fmt::Write as _;

/// A help page.
#[derive(Debug)]
pub struct HelpPage {
    words: &'static [&'static str],
    /// Syntax of the statement.
    pub form: &'static str,
    /// Summary, one line.
    pub summary: &'static str,
    /// Details; may be empty.
    pub more: &'static str,
    /// A valid example.
    pub example: &'static str,
}

/// A topic of the help.
#[derive(Clone, Copy)]
pub struct CliTopic(&'static HelpPage);

impl std::fmt::Debug for CliTopic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.words().fmt(f)
    }
}

impl PartialEq for CliTopic {
    fn eq(&self, other: &CliTopic) -> bool {
        self.words() == other.words()
    }
}

impl Eq for CliTopic {}

impl CliTopic {
    /// Every topic, in the order of the overview.
    pub const ALL: [CliTopic; 30] = {
        let mut all = [CliTopic(&PAGES[0]); 30];
        let mut i = 0;
        while i < all.len() {
            all[i] = CliTopic(&PAGES[i]);
            i += 1;
        }
        all
    };

    /// Returns the words after `help` that select it.
    pub fn words(self) -> &'static [&'static str] {
        self.0.words
    }

    /// Returns the page.
    pub fn page(self) -> &'static HelpPage {
        self.0
    }
}

/// Formats the overview, or the page of a topic. Ends with a newline.
pub fn help(topic: Option<CliTopic>) -> String {
    let mut out = String::new();
    let Some(CliTopic(page)) = topic else {
        out.push_str(
            "Statements end with ';' and may go over several lines. Ask about one of them with 'help <statement>;'.\n\n",
        );
        let width = PAGES.iter().map(|p| p.words.join(" ").len()).max().unwrap_or_default();
        for page in &PAGES {
            let _ = writeln!(out, "  {:width$}  {}", page.words.join(" "), page.summary);
        }
        out.push_str("\nExample:\n  get users['ann'];\n");
        return out;
    };
    let _ = writeln!(out, "{}\n\n{}", page.form, page.summary);
    if !page.more.is_empty() {
        let _ = writeln!(out, "\n{}", page.more);
    }
    let _ = writeln!(out, "\nExample:\n  {}", page.example.replace('\n', "\n  "));
    out
}

const TYPES: &str = "AsciiType BooleanType ByteType BytesType CounterColumnType DateType DecimalType DoubleType DurationType\n\
EmptyType FloatType InetAddressType Int32Type IntegerType LexicalUUIDType LongType ShortType SimpleDateType\n\
TimeType TimestampType TimeUUIDType UTF8Type UUIDType\n\
Made of others: 'ReversedType(LongType)' sorts the other way round, 'CompositeType(UTF8Type,LongType)' has several\n\
parts, written 'a:1'. A program that embeds the store can add types of its own.";

const PAGES: [HelpPage; 30] = [
    HelpPage {
        words: &["create", "keyspace"],
        form: "create keyspace NAME [with ATTRIBUTE = VALUE [and ATTRIBUTE = VALUE ...]];",
        summary: "Make a keyspace: a place for column families.",
        more: "placement_strategy   SimpleStrategy or NetworkTopologyStrategy; stored and shown\n\
               strategy_options     {replication_factor: N}; stored and shown\n\
               durable_writes       true or false",
        example: "create keyspace Music with placement_strategy = SimpleStrategy and strategy_options = {replication_factor: 1};",
    },
    HelpPage {
        words: &["update", "keyspace"],
        form: "update keyspace NAME with ATTRIBUTE = VALUE [and ATTRIBUTE = VALUE ...];",
        summary: "Change a keyspace's attributes.",
        more: "The attributes are those of 'create keyspace'.",
        example: "update keyspace Music with durable_writes = false;",
    },
    HelpPage {
        words: &["drop", "keyspace"],
        form: "drop keyspace NAME;",
        summary: "Remove a keyspace and everything in it.",
        more: "Its tables of CQL, which are not shown here, go too.",
        example: "drop keyspace Music;",
    },
    HelpPage {
        words: &["create", "column", "family"],
        form: "create column family NAME [with ATTRIBUTE = VALUE [and ATTRIBUTE = VALUE ...]];",
        summary: "Make a column family: rows of columns that are sorted by name.",
        more: "column_type                  Standard, or Super for columns of columns\n\
               comparator                   the type of column names, which says how they sort (BytesType)\n\
               subcomparator                the type of the names in super columns (BytesType)\n\
               key_validation_class         the type of row keys (BytesType)\n\
               default_validation_class     the type of values (BytesType); CounterColumnType for counters\n\
               column_metadata              what is known of single columns: [{column_name: N, validation_class: TYPE,\n\
               \u{20}                            index_type: KEYS, index_name: N}, ...]\n\
               comment                      a text for people\n\
               gc_grace                     seconds before what was deleted may vanish from the files (864000)\n\
               compaction_strategy          SizeTieredCompactionStrategy or LeveledCompactionStrategy\n\
               compaction_strategy_options  {sstable_size_in_mb: N} of the latter\n\
               min_compaction_threshold     files of about a size that make a merge\n\
               max_compaction_threshold     files in one merge at most; with 4 and 32 the engine chooses\n\
               compression_options          {sstable_compression: CLASS}: LZ4 whichever it is; null is none\n\
               bloom_filter_fp_chance       how often a filter may be wrong, from 0 to 1\n\
               default_time_to_live         seconds that a column lives that 'set' gives no ttl (0: for ever)\n\
               caching, read_repair_chance, dclocal_read_repair_chance, replicate_on_write, speculative_retry,\n\
               memtable_flush_period_in_ms, min_index_interval, max_index_interval, cells_per_row_to_cache: stored and shown\n\n\
               Types: 'help types;'.",
        example: "create column family users with comparator = UTF8Type and key_validation_class = UTF8Type\n\
                  and column_metadata = [{column_name: name, validation_class: UTF8Type, index_type: KEYS}];",
    },
    HelpPage {
        words: &["update", "column", "family"],
        form: "update column family NAME with ATTRIBUTE = VALUE [and ATTRIBUTE = VALUE ...];",
        summary: "Change a column family's attributes, its columns' types and indexes.",
        more: "The attributes are those of 'create column family'. Other attributes stay unchanged, except that\n\
               column_metadata is the whole list. The type of names cannot change.",
        example: "update column family users with comment = 'people' and gc_grace = 3600;",
    },
    HelpPage {
        words: &["drop", "column", "family"],
        form: "drop column family NAME;",
        summary: "Remove a column family with its rows and indexes.",
        more: "",
        example: "drop column family users;",
    },
    HelpPage {
        words: &["drop", "index"],
        form: "drop index on FAMILY.COLUMN;",
        summary: "Remove a column's index; the column stays.",
        more: "'update column family' with index_type in its column_metadata builds it over what is there.",
        example: "drop index on users.name;",
    },
    HelpPage {
        words: &["use"],
        form: "use KEYSPACE [USER 'PASSWORD'];",
        summary: "Choose the keyspace of the statements that follow.",
        more: "A user and a password are read and not checked: 'connect' logs in to a server.",
        example: "use Music;",
    },
    HelpPage {
        words: &["set"],
        form: "set FAMILY[KEY][COLUMN] = VALUE [with ttl = SECONDS];\nset FAMILY[KEY][SUPER][COLUMN] = VALUE [with ttl = SECONDS];",
        summary: "Write a column.",
        more: "Keys, names and values are texts that the family's types read; a function says another type:\n\
               'help functions;'. After SECONDS the column is gone; 0 is for ever, also where the\n\
               family has a default_time_to_live.",
        example: "set users['ann']['name'] = 'Ann' with ttl = 3600;",
    },
    HelpPage {
        words: &["get"],
        form: "get FAMILY[KEY] [limit N];\nget FAMILY[KEY][COLUMN] [as TYPE] [limit N];\n\
               get FAMILY[KEY][SUPER][COLUMN] [as TYPE];\nget FAMILY where COLUMN = VALUE [and COLUMN > VALUE ...] [limit N];",
        summary: "Read a row, a super column or a column, or find rows by their columns.",
        more: "'as' shows the value as another type. 'where' needs one '=' on a column that has an index;\n\
               the other conditions may also be <, <=, > and >=. The last columns of a row: 'help list;'.",
        example: "get users where name = 'Ann' limit 10;",
    },
    HelpPage {
        words: &["list"],
        form: "list FAMILY [limit N] [columns N [reversed]];\nlist FAMILY[START:END] [limit N] [columns N [reversed]];",
        summary: "Read rows one after the other.",
        more: "START and END are keys and belong to the range; either may be left out. 100 rows and 100 columns\n\
               of each where nothing is said. Rows come in the order of the partitioner, which 'describe cluster;'\n\
               names: by key under ByteOrderedPartitioner and OrderPreservingPartitioner, else by token, and a START\n\
               whose token is behind END's is refused. From a key to itself is one row: so its last columns are read.",
        example: "list users limit 20 columns 5;\nlist log['web':'web'] columns 10 reversed;",
    },
    HelpPage {
        words: &["count"],
        form: "count FAMILY[KEY];\ncount FAMILY[KEY][SUPER];",
        summary: "Count the columns of a row or of a super column.",
        more: "",
        example: "count users['ann'];",
    },
    HelpPage {
        words: &["incr"],
        form: "incr FAMILY[KEY][COLUMN] [by N];\nincr FAMILY[KEY][SUPER][COLUMN] [by N];",
        summary: "Count a counter up.",
        more: "By 1 where nothing is said; N may be negative.",
        example: "incr song_data['s1']['likes'] by 5;",
    },
    HelpPage {
        words: &["decr"],
        form: "decr FAMILY[KEY][COLUMN] [by N];\ndecr FAMILY[KEY][SUPER][COLUMN] [by N];",
        summary: "Count a counter down.",
        more: "By 1 where nothing is said; N may be negative.",
        example: "decr song_data['s1']['likes'];",
    },
    HelpPage {
        words: &["del"],
        form: "del FAMILY[KEY];\ndel FAMILY[KEY][COLUMN];\ndel FAMILY[KEY][SUPER][COLUMN];",
        summary: "Delete a row, a super column or a column.",
        more: "",
        example: "del users['ann']['name'];",
    },
    HelpPage {
        words: &["truncate"],
        form: "truncate FAMILY;",
        summary: "Remove every row of a column family; the family stays.",
        more: "",
        example: "truncate users;",
    },
    HelpPage {
        words: &["assume"],
        form: "assume FAMILY comparator as TYPE;\nassume FAMILY sub_comparator as TYPE;\n\
               assume FAMILY validator as TYPE;\nassume FAMILY keys as TYPE;",
        summary: "Read and show names, values or keys of a family as a type, for this session only.",
        more: "TYPE is the name of a function ('help functions;') or of a type ('help types;'). Nothing stored changes.",
        example: "assume users keys as utf8;",
    },
    HelpPage {
        words: &["consistencylevel"],
        form: "consistencylevel as LEVEL;",
        summary: "Choose a consistency level: accepted for the sake of scripts, since there is one node.",
        more: "LEVEL: ONE, TWO, THREE, QUORUM, ALL, LOCAL_QUORUM, EACH_QUORUM or ANY.",
        example: "consistencylevel as QUORUM;",
    },
    HelpPage {
        words: &["describe"],
        form: "describe;\ndescribe KEYSPACE;\ndescribe FAMILY;",
        summary: "Show a keyspace or a column family; the chosen keyspace where nothing is named.",
        more: "",
        example: "describe users;",
    },
    HelpPage {
        words: &["describe", "cluster"],
        form: "describe cluster;",
        summary: "Show the store's name, partitioner and schema version.",
        more: "",
        example: "describe cluster;",
    },
    HelpPage {
        words: &["show", "schema"],
        form: "show schema [KEYSPACE];",
        summary: "Show the statements that would make all keyspaces, or one, anew.",
        more: "",
        example: "show schema Music;",
    },
    HelpPage {
        words: &["show", "keyspaces"],
        form: "show keyspaces;",
        summary: "Describe every keyspace.",
        more: "",
        example: "show keyspaces;",
    },
    HelpPage {
        words: &["show", "cluster", "name"],
        form: "show cluster name;",
        summary: "Show the store's name.",
        more: "",
        example: "show cluster name;",
    },
    HelpPage {
        words: &["show", "api", "version"],
        form: "show api version;",
        summary: "Show the version of the interface that is spoken.",
        more: "",
        example: "show api version;",
    },
    HelpPage {
        words: &["connect"],
        form: "connect HOST/PORT [USER 'PASSWORD'];",
        summary: "Connect to a server, and log in: with --connect; else the store is in this process.",
        more: "",
        example: "connect localhost/9160;",
    },
    HelpPage { words: &["exit"], form: "exit;", summary: "Leave.", more: "", example: "exit;" },
    HelpPage { words: &["quit"], form: "quit;", summary: "Leave.", more: "", example: "quit;" },
    HelpPage {
        words: &["help"],
        form: "help [STATEMENT];\n?",
        summary: "Show all statements, or how one is used.",
        more: "",
        example: "help set;",
    },
    HelpPage {
        words: &["types"],
        form: "TypeName",
        summary: "The types of keys, names and values.",
        more: TYPES,
        example: "create column family log with comparator = TimeUUIDType;",
    },
    HelpPage {
        words: &["functions"],
        form: "FUNCTION('argument')",
        summary: "Functions say of which type a key, a name or a value is.",
        more: "ascii('a') bytes('00ff') countercolumn('1') int('1') integer('1') lexicaluuid('…') long('1')\n\
               timeuuid('…') utf8('a')\n\
               timeuuid() and lexicaluuid() without an argument make a fresh one, bytes() is empty.",
        example: "set log['web'][timeuuid()] = utf8('started');",
    },
];
