"""Firn: an embedded, ordered, durable store, and CQL over Cassandra's data model.

    import firn

    with firn.Db("data") as db:
        fruit = db.tree("fruit")
        fruit[b"apple"] = b"red"
        for key, value in fruit[b"a":b"c"].items():
            print(key, value)

    session = firn.Session("music")
    for row in session.execute("SELECT title, tags FROM music.songs"):
        print(row.title, row.tags)

`firn.dbapi` is the DB-API 2.0 interface, and `firn.aio` the interface for asyncio.
"""

from collections.abc import Mapping as _Mapping
from collections.abc import MutableMapping as _MutableMapping

from ._firn import *  # noqa: F401,F403
from ._firn import MutableTreeRange, TreeRange, __version__  # noqa: F401
from ._types import Bytes, Durability, Fold, Pairs, Values  # noqa: F401

_Mapping.register(TreeRange)
_MutableMapping.register(MutableTreeRange)
