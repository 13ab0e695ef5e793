"""The programs of `examples` run."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import pytest

import firn

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_notes_are_served(tmp_path):
    program = [sys.executable, str(EXAMPLES / "notes.py"), str(tmp_path / "db"), "0"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            url = server.stdout.readline().strip()

            def ask(path="", body=None, method=None):
                request = urllib.request.Request(url + path, data=body, method=method)
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return json.loads(answer.read())

            assert ask() == []
            assert [ask(body=text) for text in (b"Buy oranges", b"Orange paint, orange brush")] == [{"id": 1}, {"id": 2}]
            assert [note["id"] for note in ask()] == [2, 1]
            assert [note["id"] for note in ask("?word=orange")] == [2, 1] and ask("?word=bu")[0]["text"] == "Buy oranges"
            assert ask("/1", method="DELETE") == {} and ask("?word=buy") == []
            for path, method in (("/1", "DELETE"), ("/x", "GET")):
                with pytest.raises(urllib.error.HTTPError, match="404"):
                    ask(path, method=method)
        finally:
            server.kill()
    # A killed program loses nothing that it has acknowledged.
    with firn.Db(tmp_path / "db") as db:
        notes = load("notes").Notes(db)
        assert notes.find() == [{"id": 2, "text": "Orange paint, orange brush"}] and len(notes.words) == 3


def test_notes_of_several_threads_have_numbers_of_their_own():
    with firn.Db.in_memory() as db:
        notes = load("notes").Notes(db)
        numbers = []
        work = lambda: numbers.extend(notes.add(f"note {n}") for n in range(20))  # noqa: E731
        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert sorted(numbers) == list(range(1, 81)) and len(notes.words.prefix(b"note\0")) == 80


def test_weather_is_analysed(tmp_path):
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    program = [sys.executable, str(EXAMPLES / "weather.py"), str(tmp_path / "db")]
    printed = subprocess.run(program, capture_output=True, text=True, timeout=120)
    assert printed.returncode == 0, printed.stderr
    lines = printed.stdout.splitlines()
    assert lines[0].split() == ["min", "mean", "max"]
    assert lines[-1].startswith("2026-03-31") and lines[-1].split()[-3:] == ["4.5", "9.6", "14.6"]
