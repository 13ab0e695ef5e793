"""A web application that stores notes, and finds them by the beginning of a word.

    python notes.py FOLDER [PORT]
    curl -d 'Buy oranges' localhost:8000/notes
    curl 'localhost:8000/notes?word=orange'

It has two trees. `notes` maps a number to a text. `words` is its index: each key is a word, a zero
byte and the number of a note. A transaction changes both, so that the index always fits.
"""

import json
import re
import sys
from urllib.parse import parse_qs
from wsgiref.simple_server import make_server

import firn


class Notes:
    """Notes in a store."""

    def __init__(self, db):
        self.db = db
        self.notes = db.tree("notes")
        self.words = db.tree("words")

    @staticmethod
    def keys(number, text):
        """Return the keys of the index for a note."""
        return {word.encode() + b"\0" + number for word in re.findall(r"\w+", text.lower())}

    def add(self, text):
        """Store a note and return its number."""

        def work(tx):
            # Requests that add a note wait for each other here, instead of running again.
            tx.lock(self.notes, b"next")
            last = tx[self.notes].last()
            number = (int.from_bytes(last[0], "big") + 1 if last else 1).to_bytes(8, "big")
            tx[self.notes][number] = text.encode()
            tx[self.words].update((key, b"") for key in self.keys(number, text))
            return number

        return int.from_bytes(self.db.transact(work), "big")

    def remove(self, number):
        """Delete a note; report whether it was there."""

        def work(tx):
            key = number.to_bytes(8, "big")
            text = tx[self.notes].pop(key, None)
            if text is None:
                return False
            for word in self.keys(key, text.decode()):
                tx[self.words].delete(word)
            return True

        return self.db.transact(work)

    def find(self, word="", limit=20):
        """Return the newest notes, or those with a word that begins so, in the order of the words."""
        with self.db.snapshot() as now:
            notes = now[self.notes]
            if not word:
                found = reversed(notes.keys())
            else:
                keys = now[self.words].keys(prefix=word.lower().encode())
                # A dict drops repeated numbers, and retains the order.
                found = dict.fromkeys(key[-8:] for key in keys)
            numbers = [number for number, _ in zip(found, range(limit))]
            return [{"id": int.from_bytes(n, "big"), "text": notes[n].decode()} for n in numbers]


def application(notes):
    """Return the WSGI application."""

    def answer(environ, start_response):
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        one = re.fullmatch(r"/notes/(\d{1,18})", path)
        status, body = "404 Not Found", {"error": "no such page"}
        if path == "/notes" and method == "GET":
            query = parse_qs(environ.get("QUERY_STRING", ""))
            status, body = "200 OK", notes.find(query.get("word", [""])[0])
        elif path == "/notes" and method == "POST":
            length = min(int(environ.get("CONTENT_LENGTH") or 0), 1 << 16)
            text = environ["wsgi.input"].read(length).decode(errors="replace")
            status, body = "201 Created", {"id": notes.add(text)}
        elif one and method == "DELETE" and notes.remove(int(one[1])):
            status, body = "200 OK", {}
        start_response(status, [("Content-Type", "application/json")])
        return [json.dumps(body).encode() + b"\n"]

    return answer


def main():
    folder, port = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8000
    with firn.Db(folder) as db, make_server("localhost", port, application(Notes(db))) as server:
        print(f"http://localhost:{server.server_port}/notes", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
