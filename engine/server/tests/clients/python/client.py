"""Tests the Python driver against a server: connection, schema, all types, pages, batches, conditions,
prepared statements across an ALTER, tracing, events, errors, and a restart of the server. Also logins with
the permissions of roles, and TLS with and without a client certificate. cqlsh is tested, too.

    client.py FIRN    FIRN is the command; cqlsh must be in the directory of the Python executable
"""

import datetime
import decimal
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import uuid

from cassandra import AlreadyExists, InvalidRequest, Unauthorized
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import Cluster, NoHostAvailable
from cassandra.policies import ConstantReconnectionPolicy
from cassandra.protocol import SyntaxException
from cassandra.query import BatchStatement, BatchType, SimpleStatement
from cassandra.util import Date, Duration, SortedSet, Time

FIRN = sys.argv[1]
TYPES = [
    ("ascii", "plain"),
    ("bigint", -(2**63)),
    ("blob", b"\x00\xff"),
    ("boolean", True),
    ("date", Date(datetime.date(1969, 12, 31))),
    ("decimal", decimal.Decimal("-1.50")),
    ("double", 1.7976931348623157e308),
    ("duration", Duration(14, 3, 5_000_000_001)),
    ("float", 0.5),
    ("frozen<list<int>>", [3, 1, 2]),
    ("inet", "::1"),
    ("int", -7),
    ("list<text>", ["b", "a", ""]),
    ("map<text, frozen<set<int>>>", {"k": SortedSet([1, 2])}),
    ("set<uuid>", SortedSet([uuid.UUID(int=1), uuid.UUID(int=2)])),
    ("smallint", -32768),
    ("text", "grüße, \U0001f600"),
    ("time", Time("08:12:54.123456789")),
    ("timestamp", datetime.datetime(2009, 8, 18, 1, 13, 24, 7000)),
    ("timeuuid", uuid.uuid1()),
    ("tinyint", -128),
    ("tuple<int, text>", (1, None)),
    ("uuid", uuid.uuid4()),
    ("varint", 10**30),
]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(store, port, *options):
    command = [FIRN, "--db", store, "serve", "--listen", f"127.0.0.1:{port}", *options]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return server
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the server does not listen")


def refused(session, text, kind):
    try:
        session.execute(text)
    except kind as e:
        return str(e)
    raise AssertionError(f"{text} is not refused")


def conversation(port, version, compression, context=None):
    chosen = {} if version is None else {"protocol_version": version}
    cluster = Cluster(["127.0.0.1"], port=port, compression=compression, ssl_context=context, **chosen)
    session = cluster.connect()
    assert version is None or cluster.protocol_version == version
    host = cluster.metadata.all_hosts()[0]
    assert (host.datacenter, host.rack) == ("datacenter1", "rack1"), host
    session.execute("CREATE KEYSPACE IF NOT EXISTS py WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.set_keyspace("py")
    session.execute("DROP TABLE IF EXISTS every")
    columns = ", ".join(f"c{i} {of}" for i, (of, _) in enumerate(TYPES))
    session.execute(f"CREATE TABLE every (k int PRIMARY KEY, {columns})")
    known = cluster.metadata.keyspaces["py"].tables["every"].columns
    for i, (of, _) in enumerate(TYPES):
        told = known[f"c{i}"].cql_type
        assert told.replace("frozen<tuple<int, text>>", "tuple<int, text>") == of, (told, of)

    names = ", ".join(f"c{i}" for i in range(len(TYPES)))
    put = session.prepare(f"INSERT INTO every (k, {names}) VALUES (?{', ?' * len(TYPES)})")
    assert put.routing_key_indexes == [0] or cluster.protocol_version == 3
    session.execute(put, [1] + [value for _, value in TYPES])
    session.execute(put, [2] + [None for _ in TYPES])
    row = session.execute(f"SELECT {names} FROM every WHERE k = 1").one()
    for (of, value), got in zip(TYPES, row):
        assert got == value, (of, got, value)
    assert all(v is None for v in session.execute(f"SELECT {names} FROM every WHERE k = 2").one())

    session.execute("DROP TABLE IF EXISTS rows")
    session.execute("CREATE TABLE rows (k int, c int, v text, PRIMARY KEY (k, c))")
    put = session.prepare("INSERT INTO rows (k, c, v) VALUES (?, ?, ?)")
    waiting = [session.execute_async(put, (i % 3, i, f"v{i}")) for i in range(1000)]
    [w.result() for w in waiting]
    read = SimpleStatement("SELECT * FROM rows", fetch_size=70)
    assert sorted(r.c for r in session.execute(read)) == list(range(1000))
    page = session.execute(read)
    state = page.paging_state
    rest = list(session.execute(read, paging_state=state))
    assert len(rest) == 930, len(rest)

    batch = BatchStatement(batch_type=BatchType.UNLOGGED)
    for i in range(50):
        batch.add(put, (9, i, "b"))
    batch.add(SimpleStatement("DELETE FROM rows WHERE k = 9 AND c = 1000"))
    session.execute(batch)
    assert session.execute("SELECT count(*) FROM rows WHERE k = 9").one()[0] == 50

    first = session.execute("INSERT INTO rows (k, c, v) VALUES (100, 1, 'a') IF NOT EXISTS")
    again = session.execute("INSERT INTO rows (k, c, v) VALUES (100, 1, 'b') IF NOT EXISTS").one()
    assert first.was_applied and not again.applied and again.v == "a"

    read = session.prepare("SELECT * FROM rows WHERE k = ? AND c = ?")
    assert len(session.execute(read, (9, 1)).one()) == 3
    session.execute("ALTER TABLE rows ADD w int")
    assert session.execute(read, (9, 1)).one()._fields == ("k", "c", "v", "w")
    assert "w" in cluster.metadata.keyspaces["py"].tables["rows"].columns

    traced = session.execute("SELECT * FROM rows WHERE k = 9", trace=True).get_query_trace()
    assert traced.duration.microseconds > 0 and len(traced.events) >= 2

    refused(session, "SELECT * FROM nowhere", InvalidRequest)
    refused(session, "SELEKT", SyntaxException)
    refused(session, "CREATE TABLE rows (k int PRIMARY KEY)", AlreadyExists)
    tls = context and session.execute("SELECT ssl_protocol FROM system_views.clients").one()[0]
    assert not context or tls == context.minimum_version.name.replace("_", "."), tls
    print(f"python: protocol {cluster.protocol_version}, compression {compression}, TLS {tls}: good")
    cluster.shutdown()


def restart(store, port, server):
    """A client continues after its server was killed and another one has started."""
    cluster = Cluster(["127.0.0.1"], port=port, reconnection_policy=ConstantReconnectionPolicy(0.2, None))
    session = cluster.connect("py")
    count = session.prepare("SELECT count(*) FROM rows")
    before = session.execute(count).one()[0]
    server.kill()
    server.wait()
    server = start(store, port)
    for attempt in range(100):
        try:
            assert session.execute(count).one()[0] == before
            break
        except Exception as e:
            if attempt == 99:
                raise
            time.sleep(0.1)
    print("python: a server that was killed is found again, with what was written")
    cluster.shutdown()
    return server


def logins(store, port):
    """Creates roles without a server; from then on clients must log in."""
    roles = """
        CREATE ROLE admin WITH PASSWORD = 'a' AND LOGIN = true AND SUPERUSER = true;
        CREATE ROLE reader WITH PASSWORD = 'r' AND LOGIN = true;
        GRANT SELECT ON py.rows TO reader;"""
    subprocess.run([FIRN, "--db", store, "cql", "-e", roles], check=True, stdout=subprocess.DEVNULL)
    server = start(store, port)
    for version in (5, 4):
        def connect(name, password):
            auth = PlainTextAuthProvider(name, password)
            return Cluster(["127.0.0.1"], port=port, protocol_version=version, auth_provider=auth)

        for name, password in (("reader", "a"), ("nobody", "r")):
            try:
                connect(name, password).connect()
            except NoHostAvailable as e:
                assert "incorrect" in str(e), e
            else:
                raise AssertionError(f"{name} has logged in")
        cluster = connect("reader", "r")
        session = cluster.connect()
        assert session.execute("SELECT count(*) FROM py.rows").one()[0] > 0
        for text in ("SELECT * FROM py.every", "DROP TABLE py.rows", "INSERT INTO py.rows (k, c) VALUES (1, 1)"):
            refused(session, text, Unauthorized)
        cluster.shutdown()
        cluster = connect("admin", "a")
        session = cluster.connect()
        assert {r.role for r in session.execute("LIST ROLES")} == {"admin", "reader"}
        cluster.shutdown()
    print("python: a role logs in, and may do what was granted to it")
    return server


def certify(folder, name, by=None):
    """Creates a certificate and its key, signed by the certificate named by `by`."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key", "-subj", f"/CN={name}"]
    if by is None:
        return openssl("req", "-x509", *new, "-days", "2", "-out", f"{name}.pem")
    openssl("req", *new, "-out", f"{name}.csr")
    with open(os.path.join(folder, f"{name}.ext"), "w") as extensions:
        extensions.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    signed = ["-CA", f"{by}.pem", "-CAkey", f"{by}.key", "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext"]
    openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")


def encrypted(port):
    """The driver and cqlsh over TLS, to a server without logins."""
    if shutil.which("openssl") is None:
        print("python: skipped: TLS (no openssl to make certificates with)")
        return
    with tempfile.TemporaryDirectory() as folder:
        def path(name):
            return os.path.join(folder, name)

        certify(folder, "authority")
        certify(folder, "server", by="authority")
        certify(folder, "client", by="authority")
        options = ["--tls-certificate", path("server.pem"), "--tls-key", path("server.key")]
        server = start(path("store"), port, *options)
        try:
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                context = ssl.create_default_context(cafile=path("authority.pem"))
                context.minimum_version = context.maximum_version = version
                for protocol in (5, 4):
                    conversation(port, protocol, True, context)
            cqlsh = os.path.join(os.path.dirname(sys.executable), "cqlsh")
            if os.path.exists(cqlsh):
                def shell(*words, **environment):
                    # cqlsh accepts localhost as an address, and requires that name in the certificate.
                    command = [cqlsh, "127.0.0.1", str(port), *words, "-e", "SELECT ssl_protocol FROM system_views.clients"]
                    environment = {**os.environ, "HOME": folder, **environment}
                    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

                done = shell("--ssl", SSL_CERTFILE=path("authority.pem"))
                assert done.returncode == 0 and "TLSv1.3" in done.stdout, done
                assert shell().returncode != 0, "without TLS"
                print("cqlsh: over TLS: good")
            # New connections get the server's new certificate.
            before = ssl.get_server_certificate(("127.0.0.1", port))
            certify(folder, "server", by="authority")
            server.send_signal(signal.SIGHUP)
            for _ in range(100):
                if ssl.get_server_certificate(("127.0.0.1", port)) != before:
                    break
                time.sleep(0.05)
            else:
                raise AssertionError("the certificate was not read again")
        finally:
            server.terminate()
            assert server.wait() == 0
        server = start(path("store"), port, *options, "--tls-clients", path("authority.pem"))
        try:
            context = ssl.create_default_context(cafile=path("authority.pem"))
            try:
                Cluster(["127.0.0.1"], port=port, ssl_context=context).connect()
            except NoHostAvailable:
                pass
            else:
                raise AssertionError("a client without a certificate has come in")
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.load_cert_chain(path("client.pem"), path("client.key"))
            conversation(port, None, False, context)
        finally:
            server.terminate()
            assert server.wait() == 0


def main():
    with tempfile.TemporaryDirectory() as store:
        port = free_port()
        server = start(store, port)
        try:
            for version in (None, 5, 4, 3):
                for compression in (True, False):
                    conversation(port, version, compression)
            server = restart(store, port, server)
            server.terminate()
            assert server.wait() == 0
            server = logins(store, port)
        finally:
            server.terminate()
            assert server.wait() == 0
        encrypted(port)


main()
