//! A music site: songs with tags, likes that are counted once, playlists, listening histories, and
//! logins.
//!
//! ```text
//! cargo run --release -p firn-cql --example music [DIR]
//! ```
//!
//! One table for each query, as the data model requires:
//!
//! | table | a partition | query |
//! |---|---|---|
//! | `songs` | a song | its properties; by index: songs of an artist, songs with a tag |
//! | `opinions` | a user, by song | opinion on a song |
//! | `counts` | a song | number of likes, number of plays |
//! | `playlists` | a user's list, by position | its songs, in order |
//! | `heard` | a user, newest first | songs heard last |
//! | `sessions` | a ticket | its user; expires after an hour |

use std::collections::BTreeSet;

use firn_cql::{FromRow, PagedRows, Prepared, Result, Rows, RunOptions, Session, Values};
use uuid::Uuid;

const SCHEMA: [&str; 10] = [
    "CREATE KEYSPACE IF NOT EXISTS music WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "USE music",
    "CREATE TABLE IF NOT EXISTS songs (id uuid PRIMARY KEY, title text, artist text, tags set<text>)",
    "CREATE INDEX IF NOT EXISTS ON songs (artist)",
    "CREATE INDEX IF NOT EXISTS ON songs (tags)",
    "CREATE TABLE IF NOT EXISTS opinions (user text, song uuid, kind int, PRIMARY KEY (user, song))",
    "CREATE TABLE IF NOT EXISTS counts (song uuid PRIMARY KEY, dislikes counter, likes counter, favorites counter, plays counter)",
    "CREATE TABLE IF NOT EXISTS playlists (user text, name text, place int, song uuid, PRIMARY KEY ((user, name), place))",
    "CREATE TABLE IF NOT EXISTS heard (user text, at timeuuid, song uuid, PRIMARY KEY (user, at)) WITH CLUSTERING ORDER BY (at DESC)",
    "CREATE TABLE IF NOT EXISTS sessions (ticket uuid PRIMARY KEY, user text) WITH default_time_to_live = 3600",
];

#[derive(Clone, Debug, PartialEq, FromRow)]
struct Song {
    id: Uuid,
    title: String,
    artist: String,
    tags: BTreeSet<String>,
}

/// Counters that were never incremented are null.
#[derive(Clone, Copy, Debug, Default, PartialEq, FromRow)]
struct Counts {
    #[firn(default)]
    dislikes: i64,
    #[firn(default)]
    likes: i64,
    #[firn(default)]
    favorites: i64,
    #[firn(default)]
    plays: i64,
}

/// A song that was heard, with the time in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, FromRow)]
struct Heard {
    user: String,
    song: Uuid,
    #[firn(rename = "system.totimestamp(at)")]
    at: i64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Opinion {
    Dislike,
    Like,
    Favorite,
}

impl Opinion {
    /// The counter, and the number stored in `opinions`: 1, 2 or 3.
    const ALL: [(Opinion, &'static str); 3] = [
        (Opinion::Dislike, "dislikes"),
        (Opinion::Like, "likes"),
        (Opinion::Favorite, "favorites"),
    ];
}

/// The application. Its statements are compiled once.
#[derive(Clone)]
struct Site {
    session: Session,
    add: Prepared,
    song: Prepared,
    tag: Prepared,
    opinion: Prepared,
    say_first: Prepared,
    say_instead: Prepared,
    /// Increments the counter of each opinion.
    count: [Prepared; 3],
    play: Prepared,
    hear: Prepared,
    last_place: Prepared,
    append: Prepared,
    log_in: Prepared,
}

impl Site {
    fn new(session: Session) -> Result<Site> {
        for statement in SCHEMA {
            session.execute(statement, ())?;
        }
        let count = |name: &str| {
            session.prepare(&format!("UPDATE counts SET {name} = {name} + ? WHERE song = ?"))
        };
        let [dislikes, likes, favorites] = Opinion::ALL.map(|(_, name)| count(name));
        Ok(Site {
            add: session
                .prepare("INSERT INTO songs (id, title, artist, tags) VALUES (?, ?, ?, ?)")?,
            song: session.prepare("SELECT * FROM songs WHERE id = ?")?,
            tag: session.prepare("UPDATE songs SET tags = tags + ? WHERE id = ?")?,
            opinion: session.prepare("SELECT kind FROM opinions WHERE user = ? AND song = ?")?,
            say_first: session.prepare(
                "INSERT INTO opinions (user, song, kind) VALUES (?, ?, ?) IF NOT EXISTS",
            )?,
            say_instead: session
                .prepare("UPDATE opinions SET kind = ? WHERE user = ? AND song = ? IF kind = ?")?,
            count: [dislikes?, likes?, favorites?],
            play: count("plays")?,
            hear: session.prepare("INSERT INTO heard (user, at, song) VALUES (?, now(), ?)")?,
            last_place: session
                .prepare("SELECT max(place) FROM playlists WHERE user = ? AND name = ?")?,
            append: session.prepare(
                "INSERT INTO playlists (user, name, place, song) VALUES (?, ?, ?, ?) IF NOT EXISTS",
            )?,
            log_in: session.prepare("INSERT INTO sessions (ticket, user) VALUES (?, ?)")?,
            session,
        })
    }

    fn run(&self, statement: &Prepared, values: impl Values) -> Result<Rows> {
        self.session.run(statement, values, &RunOptions::default())
    }

    /// Returns the first row, if there is one.
    fn one<T: FromRow>(&self, statement: &Prepared, values: impl Values) -> Result<Option<T>> {
        self.run(statement, values)?.row(0).map(T::from_row).transpose()
    }

    /// Executes a statement with a condition. Returns whether it held: another client may have been
    /// faster.
    fn try_to(&self, statement: &Prepared, values: impl Values) -> Result<bool> {
        self.one(statement, values).map(|row: Option<Applied>| row.is_some_and(|r| r.applied))
    }

    fn add(&self, song: &Song) -> Result<()> {
        self.run(&self.add, (song.id, &song.title, &song.artist, song.tags.clone())).map(drop)
    }

    fn song(&self, id: Uuid) -> Result<Option<Song>> {
        self.one(&self.song, (id,))
    }

    fn tag(&self, id: Uuid, tag: &str) -> Result<()> {
        self.run(&self.tag, (BTreeSet::from([tag]), id)).map(drop)
    }

    /// Iterates over songs that an index finds, one page at a time.
    fn by_artist(&self, artist: &str) -> Result<impl Iterator<Item = Result<Song>>> {
        Ok(self.session.query("SELECT * FROM songs WHERE artist = ?", (artist,))?.typed())
    }

    fn tagged(&self, tag: &str) -> Result<impl Iterator<Item = Result<Song>>> {
        Ok(self.session.query("SELECT * FROM songs WHERE tags CONTAINS ?", (tag,))?.typed())
    }

    fn opinion(&self, user: &str, song: Uuid) -> Result<Option<Opinion>> {
        let kind: Option<(i32,)> = self.one(&self.opinion, (user, song))?;
        Ok(kind.and_then(|(kind,)| Opinion::ALL.get(kind as usize - 1)).map(|o| o.0))
    }

    /// Records a user's opinion of a song. It is stored once and counted once, even with concurrent
    /// calls.
    fn say(&self, user: &str, song: Uuid, opinion: Opinion) -> Result<()> {
        let kind = |o: Opinion| o as i32 + 1;
        loop {
            let before = self.opinion(user, song)?;
            let applied = match before {
                Some(before) if before == opinion => return Ok(()),
                Some(before) => {
                    self.try_to(&self.say_instead, (kind(opinion), user, song, kind(before)))?
                }
                None => self.try_to(&self.say_first, (user, song, kind(opinion)))?,
            };
            // If it was not applied, the user said something from another place: read again.
            if applied {
                if let Some(before) = before {
                    self.run(&self.count[before as usize], (-1_i64, song))?;
                }
                return self.run(&self.count[opinion as usize], (1_i64, song)).map(drop);
            }
        }
    }

    fn counts(&self, song: Uuid) -> Result<Counts> {
        let rows = self.session.execute("SELECT * FROM counts WHERE song = ?", (song,))?;
        Ok(rows.typed()?.pop().unwrap_or_default())
    }

    /// Returns the songs with the most likes, best first. It reads all counters, but holds few.
    fn chart(&self, length: usize) -> Result<Vec<(i64, Uuid)>> {
        let mut best = BTreeSet::new();
        for row in
            self.session.query("SELECT likes, song FROM counts", ())?.typed::<(Option<i64>, Uuid)>()
        {
            let (likes, song) = row?;
            best.insert((likes.unwrap_or(0), song));
            if best.len() > length {
                best.pop_first();
            }
        }
        Ok(best.into_iter().rev().collect())
    }

    fn play(&self, user: &str, song: Uuid) -> Result<()> {
        self.run(&self.hear, (user, song))?;
        self.run(&self.play, (1_i64, song)).map(drop)
    }

    /// Returns the songs that a user heard, newest first.
    fn history(&self, user: &str) -> Result<impl Iterator<Item = Result<Heard>>> {
        Ok(self
            .session
            .query("SELECT user, song, toTimestamp(at) FROM heard WHERE user = ?", (user,))?
            .typed())
    }

    /// Returns the song that each user heard last.
    fn latest(&self) -> Result<impl Iterator<Item = Result<Heard>>> {
        Ok(self
            .session
            .query("SELECT user, song, toTimestamp(at) FROM heard PER PARTITION LIMIT 1", ())?
            .typed())
    }

    /// Appends a song to a list.
    fn append(&self, user: &str, list: &str, song: Uuid) -> Result<()> {
        loop {
            let last: Option<(Option<i32>,)> = self.one(&self.last_place, (user, list))?;
            let place = last.and_then(|l| l.0).map_or(0, |last| last + 1);
            if self.try_to(&self.append, (user, list, place, song))? {
                return Ok(());
            }
        }
    }

    fn playlist(&self, user: &str, list: &str) -> Result<PagedRows> {
        self.session.query("SELECT song FROM playlists WHERE user = ? AND name = ?", (user, list))
    }

    fn log_in(&self, user: &str, ticket: Uuid) -> Result<()> {
        self.run(&self.log_in, (ticket, user)).map(drop)
    }

    /// Returns the user of a ticket that is still valid.
    fn who(&self, ticket: Uuid) -> Result<Option<String>> {
        let rows = self.session.execute("SELECT user FROM sessions WHERE ticket = ?", (ticket,))?;
        rows.row(0).map(|row| row.get("user")).transpose()
    }
}

/// Result of a statement with a condition.
#[derive(FromRow)]
struct Applied {
    #[firn(rename = "[applied]")]
    applied: bool,
}

/// Returns the songs of the site.
fn songs() -> Vec<Song> {
    let song = |(n, title, artist, tags): (u128, &str, &str, &[&str])| {
        let tags = tags.iter().map(|t| (*t).to_owned()).collect();
        Song { id: Uuid::from_u128(n), title: title.into(), artist: artist.into(), tags }
    };
    let all: [(u128, &str, &str, &[&str]); 4] = [
        (0x100, "Blackbird", "arin", &["ballad", "guitar"]),
        (0x101, "Hurt", "bob", &["ballad"]),
        (0x102, "Again", "arin", &[]),
        (0x103, "Quake", "eve", &["loud"]),
    ];
    all.into_iter().map(song).collect()
}

const USERS: [&str; 4] = ["arin", "bob", "eve", "joe"];

/// All users do the same at once, in two threads each; the counts are still correct.
#[allow(clippy::disallowed_methods, reason = "an application's own threads")]
fn crowd(site: &Site, rounds: usize) -> Result<()> {
    std::thread::scope(|threads| {
        let work = |user: &'static str| {
            let site = site.clone();
            move || -> Result<()> {
                for opinion in [Opinion::Dislike, Opinion::Like, Opinion::Favorite, Opinion::Like]
                    .repeat(rounds)
                {
                    for song in songs() {
                        site.say(user, song.id, opinion)?;
                        site.play(user, song.id)?;
                    }
                }
                Ok(())
            }
        };
        let running: Vec<_> =
            USERS.iter().chain(&USERS).map(|user| threads.spawn(work(user))).collect();
        running
            .into_iter()
            .try_for_each(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn main() -> Result<()> {
    let dir = std::env::args_os().nth(1).unwrap_or_else(|| "music-data".into());
    let site = Site::new(Session::open(dir)?)?;
    for song in songs() {
        site.add(&song)?;
        site.append("eve", "all", song.id)?;
    }
    site.tag(Uuid::from_u128(0x103), "new")?;
    crowd(&site, 10)?;
    println!("by arin:");
    for song in site.by_artist("arin")? {
        let song = song?;
        println!("  {} {:?}: {:?}", song.title, song.tags, site.counts(song.id)?);
    }
    println!(
        "ballads: {}",
        site.tagged("ballad")?.map(|s| Ok(s?.title)).collect::<Result<Vec<_>>>()?.join(", ")
    );
    println!("the chart:");
    for (likes, id) in site.chart(3)? {
        println!("  {likes} {}", site.song(id)?.map_or("a song that is gone".into(), |s| s.title));
    }
    println!(
        "eve's list has {} songs; she has listened to {}",
        site.playlist("eve", "all")?.count(),
        site.history("eve")?.count()
    );
    for heard in site.latest()? {
        let Heard { user, song, at } = heard?;
        println!("{user} listened last to {song}, {at} ms after 1970");
    }
    let ticket = Uuid::from_u128(7);
    site.log_in("eve", ticket)?;
    println!("the ticket is {}'s", site.who(ticket)?.unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use firn_kv::MemEnv;
    use firn_wide::{ManualClock, Options, StoreOptions, Wide};

    use super::*;

    /// Creates a site in memory with these songs. Its clock moves only when it is set.
    fn site() -> (Site, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(1_300_000_000_000_000));
        let options = Options {
            store: StoreOptions { clock: Some(clock.clone()), ..Default::default() },
            ..Options::default()
        };
        let site = Site::new(
            Session::new(Wide::open_in(Arc::new(MemEnv::new(1)), "db", options).unwrap()).unwrap(),
        )
        .unwrap();
        songs().iter().for_each(|song| site.add(song).unwrap());
        (site, clock)
    }

    fn id(n: usize) -> Uuid {
        songs()[n].id
    }

    #[test]
    fn songs_are_found_by_id_artist_and_tag() {
        let (site, _) = site();
        assert_eq!(site.song(id(0)).unwrap().as_ref(), Some(&songs()[0]));
        assert_eq!(site.song(Uuid::nil()).unwrap(), None);
        let titles = |found: &mut dyn Iterator<Item = Result<Song>>| {
            found.map(|s| s.unwrap().title).collect::<BTreeSet<_>>()
        };
        assert_eq!(
            titles(&mut site.by_artist("arin").unwrap()),
            BTreeSet::from(["Again".into(), "Blackbird".into()])
        );
        assert_eq!(
            titles(&mut site.tagged("ballad").unwrap()),
            BTreeSet::from(["Blackbird".into(), "Hurt".into()])
        );
        site.tag(id(2), "ballad").unwrap();
        assert_eq!(titles(&mut site.tagged("ballad").unwrap()).len(), 3);
    }

    #[test]
    fn an_opinion_is_counted_once_and_changes_what_was_counted() {
        let (site, _) = site();
        site.say("eve", id(0), Opinion::Dislike).unwrap();
        site.say("eve", id(0), Opinion::Like).unwrap();
        site.say("eve", id(0), Opinion::Like).unwrap();
        site.say("bob", id(0), Opinion::Like).unwrap();
        site.say("bob", id(1), Opinion::Favorite).unwrap();
        assert_eq!(site.opinion("eve", id(0)).unwrap(), Some(Opinion::Like));
        assert_eq!(site.opinion("eve", id(1)).unwrap(), None);
        assert_eq!(site.counts(id(0)).unwrap(), Counts { likes: 2, ..Counts::default() });
        assert_eq!(site.counts(id(2)).unwrap(), Counts::default());
        assert_eq!(site.chart(1).unwrap(), [(2, id(0))]);
    }

    #[test]
    fn a_crowd_counts_right() {
        let (site, _) = site();
        crowd(&site, 3).unwrap();
        for song in songs() {
            let opinions = USERS.map(|user| site.opinion(user, song.id).unwrap());
            let count =
                |o: Opinion| opinions.iter().filter(|found| **found == Some(o)).count() as i64;
            let counts = site.counts(song.id).unwrap();
            let right = (count(Opinion::Dislike), count(Opinion::Like), count(Opinion::Favorite));
            assert_eq!((counts.dislikes, counts.likes, counts.favorites), right);
            assert_eq!(counts.plays, 8 * 12);
        }
    }

    #[test]
    fn playlists_keep_their_order() {
        let (site, _) = site();
        let order = [3, 0, 0, 2];
        order.iter().for_each(|n| site.append("eve", "party", id(*n)).unwrap());
        site.append("eve", "quiet", id(1)).unwrap();
        let list =
            site.playlist("eve", "party").unwrap().map(|row| row.unwrap().get("song").unwrap());
        assert_eq!(list.collect::<Vec<Uuid>>(), order.map(id));
    }

    #[test]
    fn the_last_that_somebody_heard_comes_first() {
        let (site, clock) = site();
        for (user, n) in [("eve", 0), ("bob", 1), ("eve", 2)] {
            clock.advance(1_000_000);
            site.play(user, id(n)).unwrap();
        }
        let heard = |user: &str, n, seconds: i64| Heard {
            user: user.into(),
            song: id(n),
            at: 1_300_000_000_000 + seconds * 1000,
        };
        let history: Vec<_> = site.history("eve").unwrap().map(Result::unwrap).collect();
        assert_eq!(history, [heard("eve", 2, 3), heard("eve", 0, 1)]);
        let mut latest: Vec<_> = site.latest().unwrap().map(Result::unwrap).collect();
        latest.sort_by_key(|h| h.at);
        assert_eq!(latest, [heard("bob", 1, 2), heard("eve", 2, 3)]);
    }

    #[test]
    fn who_is_logged_in_is_forgotten_after_an_hour() {
        let (site, clock) = site();
        site.log_in("eve", Uuid::nil()).unwrap();
        clock.advance(3_599_000_000);
        assert_eq!(site.who(Uuid::nil()).unwrap().as_deref(), Some("eve"));
        clock.advance(1_000_000);
        assert_eq!(site.who(Uuid::nil()).unwrap(), None);
    }
}
