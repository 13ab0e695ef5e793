//! The article's blog: its storage-conf.xml, its authors, posts, tags and comments; the last 10 posts, the last 10 posts with a tag, and a
//! post's comments, oldest first.
//!
//! `cargo run -p firn-wide --example bloggy [directory]`; without a directory the data is gone afterwards.

use std::path::PathBuf;

use firn_wide::schema::storage_conf::StorageConf;
use firn_wide::types::uuids::time_uuid;
use firn_wide::{Keyspace, Result, Row, Wide};

/// Slug, title, body, tags as the article keeps them, second of publication.
const POSTS: &[[&str; 4]] = &[
    [
        "i-got-a-new-guitar",
        "This is a blog entry about my new, awesome guitar",
        "this is a cool entry. etc etc yada yada",
        "life,guitar,music",
    ],
    ["another-cool-guitar", "Another cool guitar", "this one is cooler still", "guitar,"],
    ["scream-is-the-best-movie-ever", "Scream is the best movie ever", "there is nothing to add", "movie,horror,"],
];
const PUBLISHED: i64 = 1_250_558_004;

/// Slug, second, commenter, address, text.
const COMMENTS: &[(&str, i64, [&str; 3])] = &[
    ("scream-is-the-best-movie-ever", 1_250_557_004, ["Some Dude", "sd@example.com", "be quiet, you"]),
    (
        "scream-is-the-best-movie-ever",
        1_250_438_004,
        ["Joe Blow", "JoeB@example.com", "you're a dumb douche because you hate scream"],
    ),
    ("i-got-a-new-guitar", 1_250_438_004, ["Johnny Guitar", "guitardude@example.com", "What kind of guitar is it?"]),
];

/// A name that sorts by this second.
fn at(second: i64) -> [u8; 16] {
    time_uuid(second * 1_000_000, 0, 1, 2)
}

/// The tags in a comma list; after the last comma there is none.
fn tags(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|tag| !tag.is_empty())
}

fn load(bloggy: &Keyspace) -> Result<()> {
    let mut batch = bloggy.batch();
    let arin = bloggy.family("Authors")?.row("Arin Sarkissian");
    for (name, value) in [("numPosts", "11"), ("twitter", "phatduckk"), ("email", "arin@example.com"), ("bio", "bla bla bla")] {
        batch.insert(&arin, name, value);
    }
    batch.commit()?;
    for (n, [slug, title, body, list]) in (0..).zip(POSTS) {
        publish(bloggy, slug, title, body, list, PUBLISHED + 60 * n)?;
    }
    for (slug, second, [commenter, email, comment]) in COMMENTS {
        let row = bloggy.family("Comments")?.row(*slug).super_column(at(*second));
        let mut batch = bloggy.batch();
        batch.insert(&row, "commenter", *commenter).insert(&row, "email", *email).insert(&row, "comment", *comment);
        batch.insert(&row, "commentTime", second.to_string());
        batch.commit()?;
    }
    Ok(())
}

/// A post, and its slug in the row of each of its tags and in that of all posts: together or not at all.
fn publish(bloggy: &Keyspace, slug: &str, title: &str, body: &str, list: &str, second: i64) -> Result<()> {
    let (entry, tagged) = (bloggy.family("BlogEntries")?.row(slug), bloggy.family("TaggedPosts")?);
    let mut batch = bloggy.batch();
    batch.insert(&entry, "title", title).insert(&entry, "body", body).insert(&entry, "slug", slug);
    batch.insert(&entry, "author", "Arin Sarkissian").insert(&entry, "tags", list).insert(
        &entry,
        "pubDate",
        second.to_string(),
    );
    for tag in tags(list).chain(["__notag__"]) {
        batch.insert(&tagged.row(tag), at(second), slug);
    }
    batch.commit()
}

/// A column as text; empty when it isn't there.
fn text(row: &Row, name: &str) -> Result<String> {
    Ok(row.value(name)?.unwrap_or_default())
}

/// The article's eight steps.
fn show_last_posts(bloggy: &Keyspace, tag: &str) -> Result<()> {
    let (entries, authors) = (bloggy.family("BlogEntries")?, bloggy.family("Authors")?);
    for column in bloggy.family("TaggedPosts")?.row(tag).slice().reversed().limit(10).columns()? {
        let entry = entries.row(column?.value_as::<String>()?);
        let author = authors.row(text(&entry, "author")?);
        println!("  {}", text(&entry, "title")?);
        println!("    by {} (@{})", text(&entry, "author")?, text(&author, "twitter")?);
        println!("    tags: {}", tags(&text(&entry, "tags")?).collect::<Vec<_>>().join(", "));
        println!("    {}", text(&entry, "body")?);
    }
    Ok(())
}

fn show_comments(bloggy: &Keyspace, slug: &str) -> Result<()> {
    let comments = bloggy.family("Comments")?.row(slug);
    for comment in comments.slice().super_columns()? {
        let value = |name: &str| comment.columns.iter().find(|c| c.name == name.as_bytes()).map(|c| c.value_as::<String>());
        if let (Some(who), Some(said)) = (value("commenter"), value("comment")) {
            println!("  {}: {}", who?, said?);
        }
    }
    Ok(())
}

fn run(dir: &std::path::Path) -> Result<()> {
    let wide = Wide::open(dir)?;
    let conf = StorageConf::parse(include_str!("storage-conf.xml"), wide.registry())?;
    for keyspace in &conf.keyspaces {
        if wide.keyspace(&keyspace.name).is_err() {
            wide.system_add_keyspace(keyspace)?;
        }
    }
    let bloggy = wide.keyspace("BloggyAppy")?;
    load(&bloggy)?;
    println!("The last 10 posts");
    show_last_posts(&bloggy, "__notag__")?;
    println!("The last 10 posts tagged guitar");
    show_last_posts(&bloggy, "guitar")?;
    println!("Comments on scream-is-the-best-movie-ever");
    show_comments(&bloggy, "scream-is-the-best-movie-ever")
}

fn main() -> Result<()> {
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let dir = given.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("firn-bloggy-{}", std::process::id())));
    let done = run(&dir);
    if given.is_none() {
        std::fs::remove_dir_all(&dir).ok();
    }
    done
}
