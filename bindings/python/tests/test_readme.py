"""The README's examples run."""

import importlib.util
import pathlib
import re

import firn

README = pathlib.Path(__file__).parent.parent / "README.md"


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = README.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python *(.*?)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 7
    names = {}
    for needed, block in blocks:
        # The words after `python` are the optional packages of an example.
        if all(importlib.util.find_spec(package) for package in needed.split()):
            exec(compile(block, README.name, "exec"), names)
    with firn.Db("data") as db:
        assert db.tree("fruit") == {b"apple": b"red", b"n": b"red", b"plum": b"blue"}
