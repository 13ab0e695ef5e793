//! The music site of the answer about likes: its statements as written, likes in its seven steps,
//! and many concurrent users.

use std::sync::Arc;

use firn_kv::Env;
use firn_wide::uuids::time_uuid;
use firn_wide::{Error, FromBytes, Keyspace, Result, Wide};
use uuid::Uuid;

use super::DemoText;
use crate::cli::{CliSession, Splitter};

/// A keyspace and its column families, in the words of the answer. cassandra-cli would refuse the
/// last statement: its names have no text type, and its columns no class. Here they are text, and
/// counters like the rest of the column family.
pub const SCHEMA: &str = include_str!("music.txt");

const USERS: [&str; 4] = ["arin", "bob", "eve", "joey"];
const SONGS: [&str; 2] = ["Blackbird", "Hurt"];
/// User, text.
const COMMENTS: [(usize, &str); 2] = [(1, "what kind of guitar is it?"), (2, "again!")];
/// Number of rounds of each thread.
const ROUNDS: usize = 25;

/// A user's opinion of a song: the values of `user_likes`; 0 or no column means none.
#[derive(Clone, Copy, PartialEq)]
enum Opinion {
    Dislike = 1,
    Like = 2,
    Favourite = 3,
}

impl Opinion {
    fn of(value: &[u8]) -> Option<Opinion> {
        [Opinion::Dislike, Opinion::Like, Opinion::Favourite]
            .into_iter()
            .find(|&o| value == [o as u8])
    }

    /// Returns the counter of `song_data` for this opinion.
    fn counter(self) -> &'static str {
        match self {
            Opinion::Dislike => "dislikes",
            Opinion::Like => "likes",
            Opinion::Favourite => "favorites",
        }
    }
}

/// Returns a unique UUID for each number.
fn id(number: usize) -> [u8; 16] {
    time_uuid(1_300_000_000_000_000 + number as i64 * 1_000_000, 0, 1, 2)
}

fn user(n: usize) -> [u8; 16] {
    id(n)
}

fn song(n: usize) -> [u8; 16] {
    id(100 + n)
}

/// Creates the keyspace `Music` by the answer's statements, and describes how users like and
/// dislike songs, one at a time and concurrently.
///
/// # Errors
/// `InvalidRequest` if the keyspace exists already; errors of the engine.
pub fn songs(wide: &Wide, env: Arc<dyn Env>) -> Result<String> {
    let mut story = DemoText::default();
    define(wide, env, &mut story)?;
    let music = wide.keyspace("Music")?;
    load(&music)?;
    story.part("A user says what she thinks of a song");
    for opinion in [Opinion::Dislike, Opinion::Like, Opinion::Like] {
        let (_, steps) = say(&music, user(2), song(0), opinion)?;
        steps.iter().for_each(|step| story.line(0, step));
        story.line(0, "");
    }
    story.line(0, counters(&music, 0)?);

    story.part("Everybody at once");
    story.line(
        0,
        format!("Each of {} users, from two threads, goes {ROUNDS} times: dislike, like, favourite, like,", USERS.len()),
    );
    story.line(0, "and every time views Blackbird. `update` has both rows for itself, so nothing is counted twice.");
    crowd(&music)?;
    story.line(0, "");
    story.line(0, counters(&music, 0)?);
    story.line(
        0,
        format!("The likes of {} users, and {} views.", USERS.len(), 2 * USERS.len() * ROUNDS * 4),
    );

    story.part("By index");
    questions(&music, &mut story)?;
    Ok(story.0)
}

fn define(wide: &Wide, env: Arc<dyn Env>, story: &mut DemoText) -> Result<()> {
    story.part("The answer's statements, as it wrote them");
    SCHEMA.lines().for_each(|line| story.line(1, line));
    let mut session = CliSession::new(wide.clone(), env, false);
    let mut statements = Splitter::new();
    statements.feed(SCHEMA);
    while let Some(statement) = statements.next_statement() {
        if let Some(failure) = session.run(&statement).failure {
            return Err(Error::InvalidRequest(failure.plain));
        }
    }
    Ok(())
}

fn load(music: &Keyspace) -> Result<()> {
    let (users, songs, comments) =
        (music.family("users")?, music.family("songs")?, music.family("comments")?);
    let mut batch = music.batch();
    for (n, name) in USERS.iter().enumerate() {
        batch.insert(&users.row(user(n)), "user_name", *name);
    }
    for (n, title) in SONGS.iter().enumerate() {
        batch.insert(&songs.row(song(n)), "title", *title).insert(
            &songs.row(song(n)),
            "user_name",
            USERS[n],
        );
    }
    for (n, (author, text)) in COMMENTS.iter().enumerate() {
        let row = comments.row(id(200 + n));
        batch
            .insert(&row, "user", user(*author))
            .insert(&row, "song", song(0))
            .insert(&row, "comment", *text);
        batch.insert(&row, "timestamp", 1_300_000_000_000 + n as i64 * 1000);
    }
    batch.commit()
}

/// Records a user's opinion of a song in the answer's steps, with exclusive access to both rows.
/// Returns whether it was new, and a description of the steps.
fn say(
    music: &Keyspace,
    user: [u8; 16],
    song: [u8; 16],
    opinion: Opinion,
) -> Result<(bool, Vec<String>)> {
    let (said, data) =
        (music.family("user_likes")?.row(user), music.family("song_data")?.row(song));
    music.update(&[user, song], |batch| {
        let before = said.get(song)?.and_then(|c| Opinion::of(&c.value));
        let (counter, previous) = (opinion.counter(), before.map_or("nothing", Opinion::counter));
        let mut steps = vec![format!("She counts among its {counter}. So far user_likes[eve][Blackbird] says: {previous}.")];
        if before == Some(opinion) {
            steps.push("1. Has she said this already? Yes: there is nothing to do.".into());
            return Ok((false, steps));
        }
        steps.push("1. Has she said this already? No.".into());
        match before {
            Some(before) => {
                batch.add(&data, before.counter(), -1);
                steps.push(format!("2. Has she said something else? Yes, {previous}. 3. Take that back: {previous} - 1."));
            }
            None => steps.push("2. Has she said something else? No. 3. So there is nothing to take back.".into()),
        }
        batch.add(&data, counter, 1);
        steps.push(format!("4. Read how many {counter} there are, 5. write one more: 6. a counter does both in one: {counter} + 1."));
        batch.insert(&said, song, [opinion as u8]);
        steps.push(format!("7. Remember it: user_likes[eve][Blackbird] = {}.", opinion as u8));
        Ok((true, steps))
    })
}

/// Runs two threads for each user.
fn crowd(music: &Keyspace) -> Result<()> {
    let work = |n: usize| -> Result<()> {
        for _ in 0..ROUNDS {
            for opinion in [Opinion::Dislike, Opinion::Like, Opinion::Favourite, Opinion::Like] {
                say(music, user(n), song(0), opinion)?;
                music.family("song_data")?.row(song(0)).add("views", 1)?;
            }
        }
        Ok(())
    };
    #[allow(clippy::disallowed_methods, reason = "they stand for an application's users")]
    std::thread::scope(|threads| {
        let running: Vec<_> =
            (0..2 * USERS.len()).map(|n| threads.spawn(move || work(n % USERS.len()))).collect();
        running
            .into_iter()
            .try_for_each(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Returns the counters of a song, including those at 0.
fn counters(music: &Keyspace, n: usize) -> Result<String> {
    let columns = music.family("song_data")?.row(song(n)).slice().counters()?;
    let each = columns.iter().map(|c| format!("{}: {}", String::from_utf8_lossy(&c.name), c.value));
    Ok(format!("song_data[{}] = {{{}}}", SONGS[n], each.collect::<Vec<_>>().join(", ")))
}

fn questions(music: &Keyspace, story: &mut DemoText) -> Result<()> {
    let users = music.family("users")?;
    for found in users.find().eq("user_name", "bob").rows()? {
        story.line(
            0,
            format!(
                "users where user_name = bob: {}",
                <Uuid as FromBytes>::from_bytes(&found.key)?
            ),
        );
    }
    for found in music.family("songs")?.find().eq("user_name", "arin").rows()? {
        let title: Option<String> = music.family("songs")?.row(&found.key).value("title")?;
        story.line(0, format!("songs where user_name = arin: {}", title.unwrap_or_default()));
    }
    story.line(0, "comments where song = Blackbird:");
    let mut rows = music.family("comments")?.find().eq("song", song(0)).rows()?;
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    for comment in rows {
        let row = music.family("comments")?.row(&comment.key);
        let author: Vec<u8> = row.value("user")?.unwrap_or_default();
        let (name, said): (Option<String>, Option<String>) =
            (users.row(author).value("user_name")?, row.value("comment")?);
        story.line(1, format!("{}: {}", name.unwrap_or_default(), said.unwrap_or_default()));
    }
    Ok(())
}
