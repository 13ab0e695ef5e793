"""The README's examples run."""

import pathlib
import re

import firn

README = pathlib.Path(__file__).parent.parent / "README.md"


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        names = {}
        exec(compile(block, README.name, "exec"), names)
    assert names["row"].title == "Blackbird"
    assert firn.Db("data").tree("fruit")[b"n"] == b"red"
