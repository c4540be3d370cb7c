"""A run in one file, as text: what its parts hold."""

import base64
import gzip
import re
from pathlib import Path

PART = re.compile(r'<script type="text/plain" id="(part-[^"]+)"[^>]*>([^<]*)</script>')


def read_handout(path: Path) -> str:
    """All that a file tells of its run, as JSON."""
    parts = PART.findall(path.read_text("utf-8"))
    assert parts, f"{path} has no parts"
    return "\n".join(gzip.decompress(base64.b64decode(letters)).decode() for _, letters in parts)
