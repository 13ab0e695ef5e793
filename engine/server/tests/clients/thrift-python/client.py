"""Tests PyPI's thrift package, with bindings generated from cassandra.thrift, against a server that is
started, killed and restarted.

    client.py FIRN    FIRN is the command; PYTHONPATH must contain the bindings
"""

import socket
import struct
import subprocess
import sys
import tempfile
import time
import uuid

from firn_cassandra import Cassandra
from firn_cassandra.ttypes import (
    CfDef,
    Column,
    ColumnDef,
    ColumnOrSuperColumn,
    ColumnParent,
    ColumnPath,
    Compression,
    ConsistencyLevel,
    CounterColumn,
    CqlResultType,
    Deletion,
    IndexClause,
    IndexExpression,
    IndexOperator,
    IndexType,
    InvalidRequestException,
    KeyRange,
    KsDef,
    Mutation,
    NotFoundException,
    SlicePredicate,
    SliceRange,
    SuperColumn,
)
from thrift.protocol.TBinaryProtocol import TBinaryProtocol, TBinaryProtocolAccelerated
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TFramedTransport, TTransportException

FIRN = sys.argv[1]
ONE = ConsistencyLevel.ONE
ALL = SlicePredicate(slice_range=SliceRange(b"", b"", False, 100))
# Each validator, with the bytes of a value.
TYPES = [
    ("AsciiType", b"plain"),
    ("BooleanType", b"\x01"),
    ("BytesType", b"\x00\xff"),
    ("DateType", struct.pack(">q", 1_250_557_904_007)),
    ("DecimalType", struct.pack(">ib", 1, -15)),
    ("DoubleType", struct.pack(">d", 1.5e300)),
    ("FloatType", struct.pack(">f", 0.5)),
    ("InetAddressType", socket.inet_pton(socket.AF_INET6, "::1")),
    ("Int32Type", struct.pack(">i", -7)),
    ("IntegerType", (10**30).to_bytes(13, "big")),
    ("LexicalUUIDType", uuid.UUID(int=1).bytes),
    ("LongType", struct.pack(">q", -(2**63))),
    ("TimeUUIDType", uuid.uuid1().bytes),
    ("UTF8Type", "grüße, \U0001f600".encode()),
    ("UUIDType", uuid.uuid4().bytes),
]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(store, thrift):
    at = ["--listen", "127.0.0.1:0", "--thrift", f"127.0.0.1:{thrift}"]
    firn = subprocess.Popen([FIRN, "--db", store, "serve", *at], stderr=subprocess.DEVNULL)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", thrift)).close()
            return firn
        except OSError:
            time.sleep(0.05)
    raise TimeoutError("the server does not listen")


def connect(port, transport, protocol):
    transport = transport(TSocket("127.0.0.1", port))
    transport.open()
    return Cassandra.Client(protocol(transport)), transport


def refused(kind, call, *args):
    try:
        call(*args)
    except kind as e:
        return e
    raise AssertionError(f"{args} was not refused")


def column(name, value, timestamp=1):
    return Column(name, value, timestamp)


def conversation(client):
    assert client.describe_version() == "20.1.0"
    assert len(client.describe_schema_versions()) == 1
    if "Blog" in [k.name for k in client.describe_keyspaces()]:
        client.system_drop_keyspace("Blog")
    families = [
        CfDef("Blog", "Posts", comparator_type="UTF8Type", column_metadata=[
            ColumnDef(b"author", "UTF8Type", IndexType.KEYS, "by_author")]),
        CfDef("Blog", "Comments", column_type="Super", comparator_type="LongType", subcomparator_type="UTF8Type"),
        CfDef("Blog", "Hits", comparator_type="UTF8Type", default_validation_class="CounterColumnType"),
    ]
    strategy = "org.apache.cassandra.locator.SimpleStrategy"
    client.system_add_keyspace(KsDef("Blog", strategy, {"replication_factor": "1"}, families))
    client.set_keyspace("Blog")
    names = sorted(f.name for f in client.describe_keyspace("Blog").cf_defs)
    assert names == ["Comments", "Hits", "Posts"], names

    # Every type, as a validator and as a comparator.
    for name, value in TYPES:
        client.system_add_column_family(CfDef(
            "Blog", f"Every{name}", comparator_type=name, default_validation_class=name, key_validation_class=name))
        parent = ColumnParent(f"Every{name}")
        client.insert(value, parent, column(value, value), ONE)
        [found] = client.get_slice(value, parent, ALL, ONE)
        assert (found.column.name, found.column.value) == (value, value), name
    refused(InvalidRequestException, client.insert, b"k", ColumnParent("EveryInt32Type"), column(b"\0", b""), ONE)

    posts = ColumnParent("Posts")
    mutations = {
        b"p%02d" % i: {"Posts": [
            Mutation(ColumnOrSuperColumn(column(b"author", b"ann" if i % 3 else b"bob"))),
            Mutation(ColumnOrSuperColumn(column(b"title", b"t%d" % i))),
        ]}
        for i in range(20)
    }
    client.batch_mutate(mutations, ConsistencyLevel.QUORUM)
    path = ColumnPath("Posts", column=b"title")
    assert client.get(b"p07", path, ONE).column.value == b"t7"
    assert client.get_count(b"p07", posts, ALL, ONE) == 2
    found = client.multiget_slice([b"p01", b"p02", b"none"], posts, ALL, ONE)
    assert [len(found[k]) for k in (b"p01", b"p02", b"none")] == [2, 2, 0]
    seen, begin = set(), b""
    while True:  # in pages
        page = client.get_range_slices(posts, ALL, KeyRange(begin, b"", count=7), ONE)
        new = [row.key for row in page if row.key not in seen]
        if not new:
            break
        seen.update(new)
        begin = page[-1].key
    assert len(seen) == 20, seen
    of_bob = IndexClause([IndexExpression(b"author", IndexOperator.EQ, b"bob")], b"", 100)
    assert len(client.get_indexed_slices(posts, of_bob, ALL, ONE)) == 7
    client.remove(b"p07", path, 2, ONE)
    refused(NotFoundException, client.get, b"p07", path, ONE)
    gone = Mutation(deletion=Deletion(2, predicate=SlicePredicate([b"author"])))
    client.batch_mutate({b"p08": {"Posts": [gone]}}, ONE)
    assert [c.column.name for c in client.get_slice(b"p08", posts, ALL, ONE)] == [b"title"]

    new = [column(b"title", b"new", 3)]
    done = client.cas(b"p09", "Posts", [column(b"title", b"t9")], new, ConsistencyLevel.SERIAL, ONE)
    assert done.success
    done = client.cas(b"p09", "Posts", [column(b"title", b"t9")], new, ConsistencyLevel.SERIAL, ONE)
    assert not done.success and done.current_values[0].value == b"new"

    comments = SuperColumn(struct.pack(">q", 5), [column(b"by", b"eve"), column(b"text", b"hm")])
    client.batch_mutate({b"p01": {"Comments": [Mutation(ColumnOrSuperColumn(super_column=comments))]}}, ONE)
    [found] = client.get_slice(b"p01", ColumnParent("Comments"), ALL, ONE)
    assert [c.name for c in found.super_column.columns] == [b"by", b"text"]
    for _ in range(3):
        client.add(b"p01", ColumnParent("Hits"), CounterColumn(b"n", 2), ONE)
    assert client.get(b"p01", ColumnPath("Hits", column=b"n"), ONE).counter_column.value == 6
    client.truncate("Posts")
    assert client.get_range_slices(posts, ALL, KeyRange(b"", b"", count=7), ONE) == []

    def cql(text):
        return client.execute_cql3_query(text.encode(), Compression.NONE, ONE)

    cql("CREATE TABLE IF NOT EXISTS notes (id int PRIMARY KEY, text text)")
    cql("INSERT INTO notes (id, text) VALUES (1, 'one')")
    answer = cql("SELECT id, text FROM notes")
    assert answer.type == CqlResultType.ROWS
    assert [c.value for c in answer.rows[0].columns] == [struct.pack(">i", 1), b"one"]
    marshal = "org.apache.cassandra.db.marshal"
    types = {b"id": f"{marshal}.Int32Type", b"text": f"{marshal}.UTF8Type"}
    assert answer.schema.value_types == types, answer.schema

    assert "nowhere" in refused(InvalidRequestException, client.set_keyspace, "nowhere").why
    refused(NotFoundException, client.describe_keyspace, "nowhere")
    refused(InvalidRequestException, client.get_slice, b"", posts, ALL, ONE)
    refused(InvalidRequestException, client.get, b"p", path, ConsistencyLevel.ANY)
    refused(InvalidRequestException, cql, "SELEKT")


with tempfile.TemporaryDirectory() as folder:
    store, port = f"{folder}/store", free_port()
    firn = start(store, port)
    for transport in TFramedTransport, TBufferedTransport:
        for protocol in TBinaryProtocol, TBinaryProtocolAccelerated:
            client, transported = connect(port, transport, protocol)
            conversation(client)
            transported.close()
            print(f"thrift: {transport.__name__}, {protocol.__name__}: good")

    client, transported = connect(port, TFramedTransport, TBinaryProtocol)
    client.set_keyspace("Blog")
    client.insert(b"kept", ColumnParent("Posts"), column(b"title", b"before"), ONE)
    firn.kill()
    firn.wait()
    refused((TTransportException, OSError, EOFError), client.describe_cluster_name)
    firn = start(store, port)
    client, transported = connect(port, TFramedTransport, TBinaryProtocol)
    client.set_keyspace("Blog")
    assert client.get(b"kept", ColumnPath("Posts", column=b"title"), ONE).column.value == b"before"
    transported.close()
    firn.terminate()
    assert firn.wait() == 0
    print("thrift: a restart: good")
