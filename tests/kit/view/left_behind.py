"""A run whose trials left files: hostile logs, a transcript, links where files should be."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from labrunner.experiment.schedule import Slot
from labrunner.records.cause import Cause
from labrunner.records.completion import FileRef
from labrunner.records.encoding import canonical
from labrunner.records.encoding.ids import make_trial_id
from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_finished
from tests.kit.made_runs import Told, make_grid, write_run

SHOUT = "document.title='owned'"
HOSTILE = (
    f"<script>{SHOUT}</script><img src=x onerror=\"{SHOUT}\"><svg onload=\"{SHOUT}\">"
    f"<a href=\"javascript:{SHOUT}\">click</a><iframe src=\"javascript:parent.{SHOUT}\"></iframe>"
    "\x1b[31mred\x1b[0m \x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07 \x1b[2J\x1b[1;1H "
    "\u202eright\u202c \u200bhidden \x00"
).encode() + b" \xff\xfe broken\n"  # fmt: skip
TRANSCRIPT = "".join(
    json.dumps(event) + "\n"
    for event in (
        {"event": "message", "message": {"role": "user", "content": HOSTILE.decode(errors="replace")}},
        {
            "event": "message",
            "message": {
                "role": "assistant",
                "content": "let me look",
                "tool_calls": [{"function": "bash", "arguments": {"cmd": "<b>ls</b>"}}],
            },
        },
        {"event": "score", "scorer": "exact", "value": 1, "explanation": "<i>as asked</i>"},
    )
).encode()
LINK = "logs/link.stdout"
FILES = {"logs/agent.stdout": HOSTILE, "transcript.jsonl": TRANSCRIPT, LINK: b"outside"}
KEPT = {
    f'<img src=x onerror="{SHOUT}">.txt': HOSTILE.replace(b"\x00", b"").replace(b"\xff\xfe", b""),
    "\u202egnp.bytes": b"\0" + HOSTILE,
}
"""What a trial left in its workspace."""
PLANTED = "#app script, #app img, #app iframe, #app a[href^=javascript]"
"""What hostile text would have made of a page."""
TRIAL = make_trial_id("a", "t0", 0)
FAILED = make_trial_id("a", "t1", 0)


def refer(path: str) -> FileRef:
    data = FILES[path]
    return FileRef(path=path, digest=f"sha256:{hashlib.sha256(data).hexdigest()}", size=len(data))


def script(slot: Slot) -> Told | None:
    match slot.schedule_idx:
        case 0:
            return Told(
                logs=tuple(map(refer, FILES)),
                prediction=HOSTILE.decode(errors="replace"),
                folders={"workspace": canonical.digest("another")},
            )
        case 2 | 6:
            return Told(value=None, errors=(Cause.SANDBOX, Cause.PROVIDER))
        case 5:
            return Told(value=0.25, passes=False, usage={"cost_usd": 0.5})
        case 11:
            return None
        case number:
            return Told(value=float(number % 2))


def write_left(runs_dir: Path, run_id: str = "left", *, has_link: bool = False) -> RunPaths:
    """Six tasks, two variants; the first trial left files, two errored, the last is owed.

    With `has_link` one of the files that its record names is a link out of the run by now.
    """
    paths = write_run(runs_dir, make_grid(tasks=6, name="left <b>behind</b>"), script, run_id=run_id)
    folder = paths.attempt(TRIAL, 1)
    (folder / "logs").mkdir(parents=True)
    (folder / "logs/agent.stdout").write_bytes(HOSTILE)
    (folder / "transcript.jsonl").write_bytes(TRANSCRIPT)
    (folder / LINK).write_bytes(FILES[LINK])
    (folder / "workspace").mkdir()
    for name, data in KEPT.items():
        (folder / "workspace" / name.replace("/", "|")).write_bytes(data)
    if has_link:
        (folder / LINK).rename(runs_dir.parent / "outside")
        (folder / LINK).symlink_to(runs_dir.parent / "outside")
    return paths


def write_long(folder: Path, left: Sequence[Mapping[str, bytes]]) -> RunPaths:
    """A run with one trial for each, which left these files."""
    refs = [
        tuple(
            FileRef(path=path, digest=canonical.digest_bytes(data), size=len(data))
            for path, data in each.items()
        )
        for each in left
    ]
    grid = make_grid(tasks=len(left), variants=("a",))
    paths = write_run(folder, grid, lambda slot: Told(logs=refs[slot.schedule_idx]))
    for rows, each in zip(iter_finished(paths), left, strict=True):
        for path, data in each.items():
            target = paths.attempt(rows.trial_id, 1) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    return paths
