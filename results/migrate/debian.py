"""The package index as lines of JSON for COPY: `apt-cache dumpavail | debian.py > packages.jsonl`."""
import json
import re
import sys


def stanza(text):
    fields, last = {}, None
    for line in text.split("\n"):
        if line[:1] in (" ", "\t"):
            fields[last] += "\n" + line.strip()
        elif line:
            last, value = line.split(":", 1)
            fields[last] = value.strip()
    return fields


for text in sys.stdin.read().split("\n\n"):
    f = stanza(text)
    if "Package" not in f:
        continue
    depends = {}
    for one in filter(None, f.get("Depends", "").split(",")):
        m = re.match(r"\s*([^\s(|]+)\s*(?:\(([^)]*)\))?", one)
        depends[m[1]] = m[2] or "any"
    row = {
        "package": f["Package"], "version": f["Version"], "architecture": f["Architecture"], "section": f.get("Section"),
        "maintainer": f.get("Maintainer"), "homepage": f.get("Homepage"), "description": f.get("Description"),
        "installed_size": int(f.get("Installed-Size", 0)), "size": int(f.get("Size", 0)), "sha256": "0x" + f.get("SHA256", ""),
        "tags": sorted({t.strip() for t in f.get("Tag", "").replace("\n", " ").split(",") if t.strip()}), "depends": depends,
    }
    print(json.dumps({k: v for k, v in row.items() if v not in (None, [], {}, "0x")}))
