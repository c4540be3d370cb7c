"""A registry on this machine's loopback: as much of the protocol as a pull needs, and faults on demand."""

import base64
import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.kit.docker.testimages import Recipe, add_text, pack

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
WAIT_S = 30.0


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def make_layer(name: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        add_text(archive, "name", name)
    return packed.getvalue()


@dataclass(kw_only=True)
class Registry:
    """Serves one small image under any name, each with a layer of its own on top."""

    login: str = ""
    """user:password; without one, everybody is served."""
    busy: int = 0
    """So many more requests for manifests are answered with 429."""
    crowd: int = 0
    """Layers are held back until so many images are under way."""
    asked: Counter[str] = field(default_factory=Counter)
    """How often each manifest was asked for, by name and reference."""
    most: int = 0
    """The most images that were under way at once."""

    def __post_init__(self) -> None:
        self._blobs: dict[str, bytes] = {}
        self._own: dict[str, str] = {}
        self._manifests: dict[str, bytes] = {}
        self._layer = pack(Recipe(name="registry"))
        self._under_way: set[str] = set()
        self._changed = threading.Condition()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def image(self, name: str) -> str:
        return f"127.0.0.1:{self._server.server_port}/{name}:1"

    def is_welcome(self, told: str | None) -> bool:
        return not self.login or told == f"Basic {base64.b64encode(self.login.encode()).decode()}"

    def move(self, name: str, **labels: str) -> str:
        """Let a name's tag mean an image with these labels; the manifest's digest."""
        tars = (self._layer, make_layer(name))
        layers = [gzip.compress(tar, compresslevel=1, mtime=0) for tar in tars]
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Labels": {"name": name, **labels}, "Cmd": ["/bin/sh"]},
                "rootfs": {"type": "layers", "diff_ids": [digest_of(tar) for tar in tars]},
            }
        ).encode()
        manifest: dict[str, Any] = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "size": len(config), "digest": digest_of(config)},
            "layers": [
                {"mediaType": LAYER, "size": len(layer), "digest": digest_of(layer)} for layer in layers
            ],
        }
        data = json.dumps(manifest).encode()
        self._blobs |= {digest_of(blob): blob for blob in (config, *layers)}
        self._own[digest_of(layers[-1])] = name
        self._manifests |= {f"{name}/1": data, f"{name}/{digest_of(data)}": data}
        return digest_of(data)

    def find_manifest(self, name: str, reference: str) -> bytes | None:
        with self._changed:
            self.asked[f"{name}@{reference}" if ":" in reference else name] += 1
            if self.busy:
                self.busy -= 1
                return None
            self._under_way.add(name)
            self.most = max(self.most, len(self._under_way))
            self._changed.notify_all()
            if f"{name}/1" not in self._manifests:
                self.move(name)
            return self._manifests[f"{name}/{reference}"]

    def find_blob(self, digest: str) -> bytes:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._under_way) >= self.crowd, WAIT_S)
            return self._blobs[digest]

    def was_served(self, digest: str) -> None:
        with self._changed:
            self._under_way.discard(self._own.get(digest, ""))
            self.crowd = 0

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_GET(self) -> None:
                if not registry.is_welcome(self.headers.get("Authorization")):
                    return self.answer(401, b"{}", "application/json")
                words = self.path.strip("/").split("/")
                if len(words) < 4:
                    return self.answer(200, b"{}", "application/json")
                name, what, which = "/".join(words[1:-2]), words[-2], words[-1]
                if what == "blobs":
                    self.answer(200, registry.find_blob(which), "application/octet-stream")
                    return registry.was_served(which)
                manifest = registry.find_manifest(name, which)
                if manifest is None:
                    told = b'{"errors": [{"code": "TOOMANYREQUESTS", "message": "slow down"}]}'
                    return self.answer(429, told, "application/json")
                return self.answer(200, manifest, MANIFEST)

            def answer(self, status: int, body: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("WWW-Authenticate", 'Basic realm="registry"')
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Docker-Content-Digest", digest_of(body))
                self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler
