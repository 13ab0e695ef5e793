"""The same questions to two places: `sums.py HOST:PORT HOST:PORT`; says whether all rows are equal."""
import sys

from cassandra.cluster import Cluster

tables = ["music.users", "music.songs", "music.comments", "music.user_likes", "music.song_data",
          "bloggy.authors", "bloggy.blog_entries", "bloggy.tagged_posts", "bloggy.comments"]
sides = []
for at in sys.argv[1:3]:
    host, port = at.split(":")
    sides.append(Cluster([host], port=int(port)).connect())
for t in tables:
    a, b = (sorted(map(repr, s.execute(f"SELECT * FROM {t}", timeout=60))) for s in sides)
    print(t, len(a), len(b), "equal" if a == b else "DIFFERENT")
