"""The stubs and the module declare the same names and types."""

import ast
import pathlib
import subprocess
import sys

import pytest

import firn

# Attributes that every class has, or that Python derives.
OWN = set(dir(object)) | {"__module__", "__getattr__", "__lt__", "__le__", "__gt__", "__ge__"}
# Slots that PyO3 adds to a sequence or mapping.
SLOTS = {"__add__", "__mul__", "__rmul__", "__iadd__", "__imul__", "__contains__", "__setitem__", "__delitem__"}


def stub():
    tree = ast.parse((pathlib.Path(firn.__file__).parent / "__init__.pyi").read_text())
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name, {f.name for f in node.body if isinstance(f, ast.FunctionDef)} - OWN


def test_classes_and_methods_are_those_of_the_stubs():
    there = {name: value for name, value in vars(firn).items() if isinstance(value, type) and not name.startswith("_")}
    said = dict(stub())
    assert set(said) == set(there)
    for name, value in there.items():
        if not issubclass(value, Exception):
            methods = set(vars(value)) - OWN
            assert said[name] - set(dir(value)) == set(), name
            assert methods - said[name] - SLOTS == set(), name


# What stubtest cannot know: the slot of PyO3, its flag for base classes, and a `Literal`.
ALLOWED = "firn.Row.__getattr__\nfirn.TreeRange\nfirn._types.Durability\n"

USE = """
from typing import Any, Mapping, MutableMapping, Optional, Tuple
import firn
import firn.aio
from firn import dbapi

db = firn.Db("data", durability="power")
tree: MutableMapping[bytes, bytes] = db.tree("t")
t = db.tree("t")
value: bytes = t[b"a"]
found: Optional[bytes] = t.get(b"a")
part: firn.MutableTreeRange = t[b"a":b"b"]
pair: Tuple[bytes, bytes] = part.popitem()
for key, value in part.items(reverse=True):
    key + value
with db.snapshot() as snapshot, db.transaction() as tx, db.batch() as batch:
    old: Mapping[bytes, bytes] = snapshot[t]
    tx[t][b"a"] = old[b"a"]
    batch[t].update({b"a": b"b"})
    del batch[t][b"a":]


async def work() -> None:
    async with firn.aio.open("data") as db:
        tree = await db.tree("t")
        got: Optional[bytes] = await tree.get(b"a")
        async for key, value in tree.items():
            key + value
        n: int = await db.transact(count)
    async with firn.aio.connect() as session:
        row = await (await session.execute("SELECT")).one()


async def count(tx: firn.aio.Transaction) -> int:
    return 1


connection = dbapi.connect("music", keyspace="m")
row: Optional[Tuple[Any, ...]] = connection.cursor().execute("SELECT", (1,)).fetchone()
"""


def run(*args, folder):
    done = subprocess.run([sys.executable, "-m", *args], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_are_those_of_the_module(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "allowed").write_text(ALLOWED)
    run("mypy.stubtest", "firn", "--allowlist", "allowed", "--ignore-unused-allowlist", folder=tmp_path)


def test_programs_are_checked_strictly(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(USE)
    run("mypy", "--strict", "-p", "firn", folder=tmp_path)
    run("mypy", "--strict", "use.py", folder=tmp_path)
    (tmp_path / "wrong.py").write_text("import firn\nfirn.Db.in_memory().tree('t')['text'] = b''\n")
    with pytest.raises(AssertionError, match="index"):
        run("mypy", "--strict", "wrong.py", folder=tmp_path)
