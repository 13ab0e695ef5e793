"""The music site and the blog, written to through a driver until SIGTERM: `apps.py HOST:PORT SEED`. What was said to be done is counted."""
import json
import random
import signal
import sys
import time
import uuid

from cassandra.cluster import Cluster
from cassandra.query import BatchStatement, BatchType

host, port = sys.argv[1].split(":")
r = random.Random(int(sys.argv[2]))
on = True


def stop(*_):
    global on
    on = False


signal.signal(signal.SIGTERM, stop)


def connect():
    while True:
        try:
            return Cluster([host], port=int(port), connect_timeout=5).connect()
        except Exception:
            time.sleep(0.2)


TEXTS = {
    "like": "UPDATE music.user_likes SET kind = ? WHERE user = ? AND song = ?",
    "unlike": "DELETE FROM music.user_likes WHERE user = ? AND song = ?",
    "song": "INSERT INTO music.songs (id, title, user_name) VALUES (?, ?, ?)",
    "comment": "INSERT INTO music.comments (song, at, user, comment) VALUES (?, ?, ?, ?)",
    "count": "UPDATE music.song_data SET likes = likes + ?, views = views + 1 WHERE song = ?",
    "entry": "INSERT INTO bloggy.blog_entries (slug, title, body, author, tags, published) VALUES (?, ?, ?, ?, ?, ?)",
    "tagged": "INSERT INTO bloggy.tagged_posts (tag, at, slug) VALUES (?, ?, ?)",
    "tag": "UPDATE bloggy.blog_entries SET tags = tags + ? WHERE slug = ?",
    "untag": "UPDATE bloggy.blog_entries SET tags = tags - ? WHERE slug = ?",
    "reply": "INSERT INTO bloggy.comments (slug, at, commenter, email, comment) VALUES (?, ?, ?, ?, ?) USING TTL 86400",
    "forget": "DELETE FROM bloggy.comments WHERE slug = ? AND at < ?",
}
done = {name: 0 for name in [*TEXTS, "lost"]}
session = connect()
p = {name: session.prepare(text) for name, text in TEXTS.items()}
songs = [uuid.UUID(int=0x40008000000000000100 + n) for n in range(300)]
users = [uuid.UUID(int=0x40008000000000000001 + n) for n in range(90)]
slugs = [f"post-{n}" for n in range(200)]
tags = ["guitar", "life", "music", "movie", "horror", "snow"]


def run(name, *values):
    """Once; who gets no answer does not ask again, as counters forbid it."""
    global session, p
    try:
        session.execute(p[name], values, timeout=10)
        done[name] += 1
    except Exception as e:
        done["lost"] += 1
        print(name, e, file=sys.stderr)
        time.sleep(0.3)


began = time.time()
while on:
    n = r.random()
    song, user, slug = r.choice(songs), r.choice(users), r.choice(slugs)
    now = int(time.time() * 1000)
    if n < 0.15:
        run("like", 2, user, song)
        run("count", 1, song)
    elif n < 0.2:
        run("unlike", user, song)
        run("count", -1, song)
    elif n < 0.3:
        run("song", song, f"title {r.randrange(10**6)}", f"user{r.randrange(90)}")
    elif n < 0.5:
        run("comment", song, now, user, f"comment {r.randrange(10**6)}")
    elif n < 0.6:
        mine = set(r.sample(tags, 2))
        batch = BatchStatement(BatchType.LOGGED)
        batch.add(p["entry"], (slug, f"title {r.randrange(10**6)}", "a cool entry " * 5, "Arin Sarkissian", mine, now))
        for tag in mine:
            batch.add(p["tagged"], (tag, uuid.uuid1(), slug))
        try:
            session.execute(batch, timeout=10)
            done["entry"] += 1
            done["tagged"] += 2
        except Exception as e:
            done["lost"] += 1
            print("entry", e, file=sys.stderr)
            time.sleep(0.3)
    elif n < 0.7:
        run("tag", {r.choice(tags)}, slug)
    elif n < 0.75:
        run("untag", {r.choice(tags)}, slug)
    elif n < 0.97:
        run("reply", slug, uuid.uuid1(), "Joe Blow", "joeb@example.com", f"reply {r.randrange(10**6)}")
    else:
        run("forget", slug, uuid.uuid1())
    time.sleep(0.001)
print(json.dumps({"seconds": round(time.time() - began, 1), "done": done}))
