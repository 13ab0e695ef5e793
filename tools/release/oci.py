"""Writes and unpacks an OCI image layout (image-spec 1.1) of one static program for several processors.

    oci.py --version V --time SECONDS --out FILE PROCESSOR=PROGRAM...
    oci.py --unpack LAYOUT --processor P --into FOLDER        prints the configuration

Equal input gives equal bytes.
"""

import argparse
import datetime
import gzip
import hashlib
import io
import json
import pathlib
import tarfile

USER = 65532
HEALTH = "GET http://127.0.0.1:9100/health answers 200 while the server serves"


def entry(name, when, mode, owner=0, content=None):
    info = tarfile.TarInfo(name)
    info.mtime, info.mode, info.uid, info.gid = when, mode, owner, owner
    if content is None:
        info.type = tarfile.DIRTYPE
    else:
        info.size = len(content)
    return info, io.BytesIO(content or b"")


def tar(entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for info, content in entries:
            archive.addfile(info, content)
    return out.getvalue()


def layer(program, when):
    root = pathlib.Path(__file__).parent.parent.parent
    accounts = [("etc/passwd", f"root:x:0:0::/:/\nfirn:x:{USER}:{USER}::/data:/\n"), ("etc/group", f"root:x:0:\nfirn:x:{USER}:\n")]
    entries = [entry(folder, when, 0o755) for folder in ("etc", "usr", "usr/bin", "usr/share", "usr/share/licenses")]
    entries += [entry(name, when, 0o644, content=text.encode()) for name, text in accounts]
    entries += [entry(f"usr/share/licenses/{name}", when, 0o644, content=(root / name).read_bytes()) for name in ("LICENSE-APACHE", "LICENSE-MIT")]
    entries += [
        entry("usr/bin/firn", when, 0o755, content=pathlib.Path(program).read_bytes()),
        entry("data", when, 0o700, owner=USER),
        entry("tmp", when, 0o1777),
    ]
    return tar(entries)


class Layout:
    def __init__(self):
        self.blobs = {}

    def add(self, content, media_type, **more):
        if not isinstance(content, bytes):
            content = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
        digest = hashlib.sha256(content).hexdigest()
        self.blobs[digest] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content), **more}


def write(args):
    created = datetime.datetime.fromtimestamp(args.time, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    labels = {
        "org.opencontainers.image.title": "firn",
        "org.opencontainers.image.description": "Firn, a server for Cassandra's clients",
        "org.opencontainers.image.version": args.version,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
        "org.opencontainers.image.created": created,
        "firn.health": HEALTH,
    }
    layout, manifests = Layout(), []
    for image in args.images:
        processor, program = image.split("=", 1)
        content = layer(program, args.time)
        packed = gzip.compress(content, mtime=0)
        config = {
            "created": created,
            "architecture": processor,
            "os": "linux",
            "config": {
                "User": f"{USER}:{USER}",
                "ExposedPorts": {"9042/tcp": {}},
                "Volumes": {"/data": {}},
                "WorkingDir": "/data",
                "Env": ["PATH=/usr/bin"],
                "Entrypoint": ["/usr/bin/firn", "--db", "/data/store"],
                "Cmd": ["serve", "--listen", "0.0.0.0:9042", "--metrics", "127.0.0.1:9100"],
                "StopSignal": "SIGTERM",
                "Labels": labels,
            },
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(content).hexdigest()]},
            "history": [{"created": created, "created_by": "tools/release/image"}],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": layout.add(config, "application/vnd.oci.image.config.v1+json"),
            "layers": [layout.add(packed, "application/vnd.oci.image.layer.v1.tar+gzip")],
            "annotations": labels,
        }
        manifests.append(layout.add(manifest, manifest["mediaType"], platform={"architecture": processor, "os": "linux"}))
    # One image of several processors: the layout's index names an index of them.
    images = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": manifests, "annotations": labels}
    name = {"org.opencontainers.image.ref.name": args.version}
    index = {"schemaVersion": 2, "mediaType": images["mediaType"], "manifests": [layout.add(images, images["mediaType"], annotations=name)]}
    files = [("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'), ("index.json", json.dumps(index, sort_keys=True).encode())]
    files += [(f"blobs/sha256/{digest}", content) for digest, content in sorted(layout.blobs.items())]
    entries = [entry(folder, args.time, 0o755) for folder in ("blobs", "blobs/sha256")]
    entries += [entry(name, args.time, 0o644, content=content) for name, content in files]
    pathlib.Path(args.out).write_bytes(tar(entries))


def unpack(args):
    layout = pathlib.Path(args.unpack)

    def blob(descriptor):
        content = (layout / "blobs/sha256" / descriptor["digest"].removeprefix("sha256:")).read_bytes()
        if "sha256:" + hashlib.sha256(content).hexdigest() != descriptor["digest"] or len(content) != descriptor["size"]:
            raise SystemExit(f"{descriptor['digest']} has other bytes")
        return content

    index = json.loads(blob(json.loads((layout / "index.json").read_text())["manifests"][0]))
    manifest = json.loads(blob(next(m for m in index["manifests"] if m["platform"]["architecture"] == args.processor)))
    for descriptor in manifest["layers"]:
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(blob(descriptor)))) as archive:
            archive.extraction_filter = lambda member, path: member  # owners are part of the image
            archive.extractall(args.into, numeric_owner=True)
    print(blob(manifest["config"]).decode())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--version")
    parser.add_argument("--time", type=int)
    parser.add_argument("--out")
    parser.add_argument("--unpack")
    parser.add_argument("--processor")
    parser.add_argument("--into")
    parser.add_argument("images", nargs="*")
    args = parser.parse_args()
    if args.unpack:
        unpack(args)
    else:
        write(args)


if __name__ == "__main__":
    main()
