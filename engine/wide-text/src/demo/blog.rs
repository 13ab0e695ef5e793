//! The article's blog: its storage-conf.xml, all of its example data in four column families, and
//! its three queries.
//!
//! Texts that the article abbreviates as `...` are invented. Its `__notag__` has two columns of one
//! name, `timeuuid_2b`, which would be one column. Here each post has its own name, the same in the
//! row of each of its tags.

use firn_wide::uuids::{micros_of, time_uuid};
use firn_wide::{
    ColumnFamily, ColumnOrSuperColumn, Error, Keyspace, Result, Row, Type, Wide, Wording,
};
use uuid::Uuid;

use super::DemoText;
use crate::storage_conf::StorageConf;

/// The article's storage-conf.xml as printed, including misplaced blanks and comments.
pub const CONF: &str = include_str!("storage-conf.xml");

/// Key of the row of all posts.
const ALL: &str = "__notag__";

/// Name; number of posts, twitter, address, biography.
const AUTHORS: &[(&str, [&str; 4])] = &[
    ("Arin Sarkissian", ["11", "phatduckk", "arin@example.com", "bla bla bla"]),
    ("Author 2", ["1", "author2", "author2@example.com", "writes about movies"]),
];

/// Slug, title, body, author, tags as in the article; time of publication in seconds.
const POSTS: &[([&str; 5], i64)] = &[
    (
        [
            "i-got-a-new-guitar",
            "This is a blog entry about my new, awesome guitar",
            "this is a cool entry. etc etc yada yada",
            "Arin Sarkissian",
            "life,guitar,music",
        ],
        1_250_558_004,
    ),
    (
        [
            "another-cool-guitar",
            "Another cool guitar",
            "this one is cooler still",
            "Arin Sarkissian",
            "guitar,",
        ],
        1_250_561_604,
    ),
    (
        [
            "scream-is-the-best-movie-ever",
            "Scream is the best movie ever",
            "there is nothing to add",
            "Author 2",
            "movie,horror,",
        ],
        1_250_565_204,
    ),
];

/// Slug, commenter, address, text; time in seconds. The newer one of a post is written first.
const COMMENTS: &[([&str; 4], i64)] = &[
    (
        [
            "scream-is-the-best-movie-ever",
            "Some Dude",
            "sd@example.com",
            "be nice Joe Blow this isnt youtube",
        ],
        1_250_557_004,
    ),
    (
        [
            "scream-is-the-best-movie-ever",
            "Joe Blow",
            "joeb@example.com",
            "you're a dumb douche, the godfather is the best movie ever",
        ],
        1_250_438_004,
    ),
    (
        ["i-got-a-new-guitar", "Johnny Guitar", "guitardude@example.com", "nice axe dawg..."],
        1_250_438_004,
    ),
];

/// Creates the keyspace `BloggyAppy` from the article's storage-conf.xml and loads its data.
/// Returns a description of the contents and of the article's three queries.
///
/// # Errors
/// `InvalidRequest` if the keyspace exists already; errors of the engine.
pub fn bloggy(wide: &Wide) -> Result<String> {
    let mut story = DemoText::default();
    define(wide, &mut story)?;
    let blog = wide.keyspace("BloggyAppy")?;
    load(&blog)?;
    story.part("Its content, in the article's notation");
    story.line(0, "Rows come in the order of their tokens, columns sorted by name, whatever the order of writing was.");
    for family in ["Authors", "BlogEntries", "TaggedPosts", "Comments"] {
        story.line(0, "");
        show_family(&blog.family(family)?, &mut story)?;
    }
    story.part("The last 10 posts");
    last_posts(&blog, ALL, &mut story)?;
    story.part("The last 10 posts tagged guitar");
    last_posts(&blog, "guitar", &mut story)?;
    for slug in ["scream-is-the-best-movie-ever", "i-got-a-new-guitar"] {
        story.part(&format!("Comments on {slug}, oldest first"));
        comments(&blog, slug, &mut story)?;
    }
    Ok(story.0)
}

fn define(wide: &Wide, story: &mut DemoText) -> Result<()> {
    let conf = StorageConf::parse(CONF, &wide.registry())?;
    story.part("The article's storage-conf.xml");
    CONF.lines().filter(|line| !line.trim().is_empty()).for_each(|line| story.line(1, line.trim()));
    for keyspace in &conf.keyspaces {
        wide.system_add_keyspace(keyspace)?;
        story.line(0, "");
        story.line(0, format!("makes the keyspace {}:", keyspace.name));
        for family in &keyspace.cf_defs {
            let short = |class: &str| class.rsplit('.').next().unwrap_or(class).to_owned();
            let sub = family.subcomparator_type.as_deref();
            let sub = sub.map(|s| format!(", their columns by {}", short(s))).unwrap_or_default();
            let of = if sub.is_empty() { "columns" } else { "super columns" };
            let order = short(&family.comparator_type);
            story.line(
                1,
                format!(
                    "{:<11} {:<8} {of} sorted by {order}{sub}",
                    family.name, family.column_type
                ),
            );
        }
    }
    Ok(())
}

fn load(blog: &Keyspace) -> Result<()> {
    let mut batch = blog.batch();
    for (name, [posts, twitter, email, bio]) in AUTHORS {
        let row = blog.family("Authors")?.row(*name);
        batch.insert(&row, "numPosts", *posts).insert(&row, "twitter", *twitter);
        batch.insert(&row, "email", *email).insert(&row, "bio", *bio);
    }
    batch.commit()?;
    for (post, second) in POSTS {
        publish(blog, post, *second)?;
    }
    for ([slug, commenter, email, comment], second) in COMMENTS {
        let row = blog.family("Comments")?.row(*slug).super_column(at(*second));
        let mut batch = blog.batch();
        batch
            .insert(&row, "commenter", *commenter)
            .insert(&row, "email", *email)
            .insert(&row, "comment", *comment);
        batch.insert(&row, "commentTime", second.to_string());
        batch.commit()?;
    }
    Ok(())
}

/// Writes a post, and atomically its slug in the row of each of its tags and of all posts.
fn publish(
    blog: &Keyspace,
    [slug, title, body, author, list]: &[&str; 5],
    second: i64,
) -> Result<()> {
    let (entry, tagged) = (blog.family("BlogEntries")?.row(*slug), blog.family("TaggedPosts")?);
    let mut batch = blog.batch();
    batch
        .insert(&entry, "title", *title)
        .insert(&entry, "body", *body)
        .insert(&entry, "author", *author);
    batch
        .insert(&entry, "tags", *list)
        .insert(&entry, "pubDate", second.to_string())
        .insert(&entry, "slug", *slug);
    for tag in tags(list).chain([ALL]) {
        batch.insert(&tagged.row(tag), at(second), *slug);
    }
    batch.commit()
}

/// Returns a name that sorts by this second.
fn at(second: i64) -> [u8; 16] {
    time_uuid(second * 1_000_000, 0, 1, 2)
}

/// Splits a comma-separated list of tags; a comma at the end is ignored.
fn tags(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').filter(|tag| !tag.is_empty())
}

fn date(second: i64) -> String {
    Type::Timestamp.to_text(&(second * 1000).to_be_bytes(), Wording::Cli)
}

/// Formats a name; for a time UUID, with its time.
fn name_text(name: &[u8]) -> (String, Option<String>) {
    let uuid = <[u8; 16]>::try_from(name).ok();
    match uuid.and_then(|u| Some((u, micros_of(u)?))) {
        Some((uuid, micros)) => {
            (Uuid::from_bytes(uuid).to_string(), Some(date(micros.div_euclid(1_000_000))))
        }
        None => (String::from_utf8_lossy(name).into_owned(), None),
    }
}

/// Formats a column family in the article's notation.
fn show_family(family: &ColumnFamily, story: &mut DemoText) -> Result<()> {
    story.line(0, format!("{} : {{", family.name()));
    for row in family.rows().iter()? {
        let row = row?;
        story.line(1, format!("{} : {{", String::from_utf8_lossy(&row.key)));
        for part in &row.columns {
            let (name, when) = name_text(part.name());
            let when = when.map(|w| format!("    // {w}")).unwrap_or_default();
            match part {
                ColumnOrSuperColumn::SuperColumn(s) => {
                    story.line(2, format!("{name} : {{{when}"));
                    for c in &s.columns {
                        let (name, value) =
                            (String::from_utf8_lossy(&c.name), String::from_utf8_lossy(&c.value));
                        story.line(3, format!("{name}: \"{value}\","));
                    }
                    story.line(2, "},");
                }
                other => {
                    let value = other
                        .column()
                        .map(|c| String::from_utf8_lossy(&c.value))
                        .unwrap_or_default();
                    story.line(2, format!("{name}: \"{value}\",{when}"));
                }
            }
        }
        story.line(1, "},");
    }
    story.line(0, "}");
    Ok(())
}

/// Returns the text of a column that was read, by name.
fn text(row: &Row, name: &str) -> Result<String> {
    Ok(row.value(name)?.unwrap_or_default())
}

/// Returns the names of a row's columns.
fn names(row: &Row) -> Result<String> {
    let names: Result<Vec<String>> = row.slice().columns()?.map(|c| c?.name_as()).collect();
    Ok(names?.join(", "))
}

/// Runs the article's eight steps, each with its result.
fn last_posts(blog: &Keyspace, tag: &str, story: &mut DemoText) -> Result<()> {
    let (entries, authors) = (blog.family("BlogEntries")?, blog.family("Authors")?);
    let newest = blog.family("TaggedPosts")?.row(tag).slice().reversed().limit(10).columns()?;
    let newest = newest.collect::<Result<Vec<_>>>()?;
    let found = newest.len();
    story.line(0, format!("1. Read the last 10 columns of the row {tag} of TaggedPosts, newest first: there are {found}."));
    story.line(0, "2. For each of them:");
    for column in newest {
        let (name, when) = name_text(&column.name);
        let slug: String = column.value_as()?;
        story.line(0, "");
        story.line(1, format!("{name}, which is {}", when.unwrap_or_default()));
        story.line(1, format!("3. Its value is a key of BlogEntries: {slug}"));
        let entry = entries.row(&slug);
        story.line(1, format!("4. Read that row: {}", names(&entry)?));
        let by = text(&entry, "author")?;
        let author = authors.row(&by);
        story.line(
            1,
            format!("5. Its author, {by}, is a key of Authors. Read that row: {}", names(&author)?),
        );
        let list = text(&entry, "tags")?;
        let split = tags(&list).collect::<Vec<_>>().join(" + ");
        story.line(1, format!("6. Now there are the post and its author; 7. its tags, \"{list}\", are split: {split}"));
        story.line(1, "8. So here is all of it but its comments:");
        let published: i64 = text(&entry, "pubDate")?
            .parse()
            .map_err(|e| Error::Corrupt(format!("{slug}: pubDate: {e}")))?;
        story.line(2, format!("| {}", text(&entry, "title")?));
        story.line(2, format!("| by {by} (@{}), {}", text(&author, "twitter")?, date(published)));
        story.line(2, format!("| {}", text(&entry, "body")?));
    }
    Ok(())
}

fn comments(blog: &Keyspace, slug: &str, story: &mut DemoText) -> Result<()> {
    for comment in blog.family("Comments")?.row(slug).slice().super_columns()? {
        let value = |name: &str| {
            comment
                .columns
                .iter()
                .find(|c| c.name == name.as_bytes())
                .map(|c| c.value_as::<String>())
        };
        if let (Some(who), Some(said)) = (value("commenter"), value("comment")) {
            let when = name_text(&comment.name).1.unwrap_or_default();
            story.line(0, format!("{when}  {}: {}", who?, said?));
        }
    }
    Ok(())
}
