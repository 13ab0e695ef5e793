//! Users, songs, comments, likes and dislikes: what the answer about a music site designs, with counters and indexes, and users who like
//! and dislike at the same time without anything being counted twice.
//!
//! `cargo run -p firn-wide --example songs [directory]`; without a directory the data is gone afterwards.

use std::path::PathBuf;

use firn_wide::schema::{CfDef, ColumnDef, KsDef};
use firn_wide::types::uuids::time_uuid;
use firn_wide::{FromBytes, Keyspace, Result, Wide};

/// What a user thinks of a song: the values of `user_likes`.
#[derive(Clone, Copy, PartialEq)]
enum Opinion {
    Dislike = 1,
    Like = 2,
    Favourite = 3,
}

impl Opinion {
    fn of(value: &[u8]) -> Option<Opinion> {
        [Opinion::Dislike, Opinion::Like, Opinion::Favourite].into_iter().find(|&o| value == [o as u8])
    }

    /// The counter of `song_data` that counts it.
    fn counter(self) -> &'static str {
        match self {
            Opinion::Dislike => "dislikes",
            Opinion::Like => "likes",
            Opinion::Favourite => "favorites",
        }
    }
}

/// A UUID, unique by its second.
fn id(second: i64) -> [u8; 16] {
    time_uuid(1_300_000_000_000_000 + second * 1_000_000, 0, 1, 2)
}

fn family(name: &str, comparator: &str, columns: Vec<ColumnDef>) -> CfDef {
    CfDef { comparator_type: comparator.into(), column_metadata: columns, ..CfDef::new("Music", name) }
}

fn define(wide: &Wide) -> Result<()> {
    let named = |column: &str| vec![ColumnDef::new(column, "UTF8Type").indexed(), ColumnDef::new("json_data", "UTF8Type")];
    let comment = vec![
        ColumnDef::new("user", "UUIDType").indexed(),
        ColumnDef::new("song", "UUIDType").indexed(),
        ColumnDef::new("timestamp", "DateType"),
        ColumnDef::new("comment", "UTF8Type"),
    ];
    let counters = ["likes", "dislikes", "favorites", "views", "downloads"].map(|c| ColumnDef::new(c, "CounterColumnType"));
    let families = vec![
        family("users", "UTF8Type", named("user_name")),
        family("songs", "UTF8Type", named("song_name")),
        family("comments", "UTF8Type", comment),
        CfDef { default_validation_class: "IntegerType".into(), ..family("user_likes", "UUIDType", vec![]) },
        CfDef { default_validation_class: "CounterColumnType".into(), ..family("song_data", "UTF8Type", counters.to_vec()) },
    ];
    wide.system_add_keyspace(&KsDef { cf_defs: families, ..KsDef::new("Music") }).map(drop)
}

/// Says what a user thinks of a song, in the answer's steps: has he said it before? Has he said something else? Then that is taken back. Count
/// it, and remember it. All of this alone with both rows, so that nothing is counted twice. Whether it was news.
fn say(music: &Keyspace, user: [u8; 16], song: [u8; 16], opinion: Opinion) -> Result<bool> {
    let (said, data) = (music.family("user_likes")?.row(user), music.family("song_data")?.row(song));
    music.update(&[user, song], |batch| {
        let before = said.get(song)?.and_then(|c| Opinion::of(&c.value));
        if before == Some(opinion) {
            return Ok(false);
        }
        if let Some(before) = before {
            batch.add(&data, before.counter(), -1);
        }
        batch.add(&data, opinion.counter(), 1).insert(&said, song, [opinion as u8]);
        Ok(true)
    })
}

fn load(music: &Keyspace) -> Result<()> {
    let (users, songs, comments) = (music.family("users")?, music.family("songs")?, music.family("comments")?);
    for (n, name) in (0..).zip(["arin", "bob", "eve", "joey"]) {
        users.row(id(n)).insert("user_name", name)?;
    }
    for (n, name) in (100..).zip(["Blackbird", "Hurt"]) {
        songs.row(id(n)).insert("song_name", name)?;
    }
    for (n, user, text) in [(200, 1, "what kind of guitar is it?"), (201, 2, "again!")] {
        let row = comments.row(id(n));
        let mut batch = music.batch();
        batch.insert(&row, "user", id(user)).insert(&row, "song", id(100)).insert(&row, "comment", text);
        batch.insert(&row, "timestamp", 1_300_000_000_000 + n * 1000);
        batch.commit()?;
    }
    Ok(())
}

fn run(dir: &std::path::Path) -> Result<()> {
    let wide = Wide::open(dir)?;
    if wide.keyspace("Music").is_err() {
        define(&wide)?;
    }
    let music = wide.keyspace("Music")?;
    load(&music)?;
    // Each of four users from two threads at once, changing their minds.
    std::thread::scope(|threads| {
        let work = |user: i64| -> Result<()> {
            for opinion in [Opinion::Dislike, Opinion::Like, Opinion::Favourite, Opinion::Like] {
                say(&music, id(user), id(100), opinion)?;
                music.family("song_data")?.row(id(100)).add("views", 1)?;
            }
            Ok(())
        };
        let running: Vec<_> = (0..8).map(|n| threads.spawn(move || work(n % 4))).collect();
        running.into_iter().map(|t| t.join().expect("no panic")).collect::<Result<Vec<()>>>()
    })?;

    println!("Blackbird");
    for counter in music.family("song_data")?.row(id(100)).slice().counters()? {
        println!("  {}: {}", String::from_utf8_lossy(&counter.name), counter.value);
    }
    println!("Its comments");
    for comment in music.family("comments")?.find().eq("song", id(100)).rows()? {
        let column = |name: &str| comment.columns.iter().filter_map(|c| c.column()).find(|c| c.name == name.as_bytes());
        if let (Some(user), Some(said)) = (column("user"), column("comment")) {
            let name: Option<String> = music.family("users")?.row(&user.value).value("user_name")?;
            println!("  {}: {}", name.unwrap_or_default(), said.value_as::<String>()?);
        }
    }
    let found = music.family("users")?.find().eq("user_name", "bob").rows()?;
    for user in found {
        println!("bob is {}", <uuid::Uuid as FromBytes>::from_bytes(&user.key)?);
    }
    Ok(())
}

fn main() -> Result<()> {
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let dir = given.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("firn-songs-{}", std::process::id())));
    let done = run(&dir);
    if given.is_none() {
        std::fs::remove_dir_all(&dir).ok();
    }
    done
}
