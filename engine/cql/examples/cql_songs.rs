//! A music site whose users like and dislike songs, many at once and nothing counted twice: prepared statements, conditions, counters, rows
//! read into structs. The same tables as in `songs.cql`.
//!
//! `cargo run -p firn-cql --example cql_songs DIRECTORY`

use firn_cql::{Prepared, Result, Session, from_row};
use uuid::Uuid;

const SCHEMA: [&str; 5] = [
    "CREATE KEYSPACE music WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "USE music",
    "CREATE TABLE songs (id uuid PRIMARY KEY, title text, tags set<text>)",
    "CREATE TABLE user_likes (user uuid, song uuid, kind int, PRIMARY KEY (user, song))",
    "CREATE TABLE song_data (song uuid PRIMARY KEY, dislikes counter, likes counter, favorites counter, views counter)",
];

/// The counters, by what `user_likes` remembers: 1 for a dislike, 2 for a like, 3 for a favourite.
const COUNTERS: [&str; 3] = ["dislikes", "likes", "favorites"];
const USERS: u128 = 4;
const ROUNDS: usize = 25;

#[derive(Debug, PartialEq)]
struct Song {
    id: Uuid,
    title: String,
    tags: Vec<String>,
}
from_row!(Song { id, title, tags });

#[derive(Debug, PartialEq)]
struct Counted {
    dislikes: Option<i64>,
    likes: Option<i64>,
    favorites: Option<i64>,
    views: i64,
}
from_row!(Counted { dislikes, likes, favorites, views });

/// The application: its statements are compiled once.
#[derive(Clone)]
struct Site {
    session: Session,
    said: Prepared,
    say_first: Prepared,
    say_instead: Prepared,
    view: Prepared,
    /// Adds to the counter of each kind.
    count: [Prepared; 3],
}

impl Site {
    fn new(session: Session) -> Result<Site> {
        for statement in SCHEMA {
            session.execute(statement, ())?;
        }
        let count = |name: &str| session.prepare(&format!("UPDATE song_data SET {name} = {name} + ? WHERE song = ?"));
        Ok(Site {
            said: session.prepare("SELECT kind FROM user_likes WHERE user = ? AND song = ?")?,
            say_first: session.prepare("INSERT INTO user_likes (user, song, kind) VALUES (?, ?, ?) IF NOT EXISTS")?,
            say_instead: session.prepare("UPDATE user_likes SET kind = ? WHERE user = ? AND song = ? IF kind = ?")?,
            view: count("views")?,
            count: [count(COUNTERS[0])?, count(COUNTERS[1])?, count(COUNTERS[2])?],
            session,
        })
    }

    fn run(&self, statement: &Prepared, values: impl firn_cql::Values) -> Result<firn_cql::Rows> {
        self.session.run(statement, values, &Default::default())
    }

    /// A user says what they think of a song: it is remembered once and counted once, whoever else says something at the same time.
    fn say(&self, user: Uuid, song: Uuid, kind: i32) -> Result<()> {
        loop {
            let before = self.run(&self.said, (user, song))?.typed::<(i32,)>()?.first().map(|row| row.0);
            let done = match before {
                Some(before) if before == kind => return Ok(()),
                Some(before) => self.run(&self.say_instead, (kind, user, song, before))?,
                None => self.run(&self.say_first, (user, song, kind))?,
            };
            // Somebody was faster: look again.
            let applied: bool = done.iter().next().map_or(Ok(true), |row| row.get("[applied]"))?;
            if !applied {
                continue;
            }
            if let Some(before) = before {
                self.run(&self.count[before as usize - 1], (-1_i64, song))?;
            }
            self.run(&self.count[kind as usize - 1], (1_i64, song))?;
            return Ok(());
        }
    }
}

fn main() -> Result<()> {
    let dir = std::env::args_os().nth(1).unwrap_or_else(|| "songs-data".into());
    let site = Site::new(Session::open(dir)?)?;
    let song = Uuid::from_u128(0x100);
    let tags = std::collections::BTreeSet::from(["ballad".to_owned(), "guitar".to_owned()]);
    site.session.execute("INSERT INTO songs (id, title, tags) VALUES (?, ?, ?)", (song, "Blackbird", tags))?;

    // Two threads for each user.
    std::thread::scope(|threads| {
        let work = |user: u128| {
            let site = site.clone();
            move || -> Result<()> {
                for kind in [1, 2, 3, 2].repeat(ROUNDS) {
                    site.say(Uuid::from_u128(user), song, kind)?;
                    site.run(&site.view, (1_i64, song))?;
                }
                Ok(())
            }
        };
        let running: Vec<_> = (0..2 * USERS).map(|n| threads.spawn(work(n % USERS))).collect();
        running.into_iter().try_for_each(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;

    for song in site.session.execute("SELECT * FROM songs", ())?.typed::<Song>()? {
        println!("{} ({})", song.title, song.tags.join(", "));
        let counted = site.session.execute("SELECT * FROM song_data WHERE song = ?", (song.id,))?.typed::<Counted>()?;
        println!("{counted:?}");
    }
    Ok(())
}
