"""Firn: an embedded, ordered, durable store, and CQL over Cassandra's data model.

    import firn

    with firn.Db("data") as db:
        fruit = db.tree("fruit")
        fruit[b"apple"] = b"red"
        for key, value in fruit.items(prefix=b"a"):
            print(key, value)

    session = firn.Session("music")
    for row in session.execute("SELECT title, tags FROM music.songs"):
        print(row.title, row.tags)
"""

from ._firn import *  # noqa: F401,F403
from ._firn import __version__  # noqa: F401
