"""Pictures for docs/viewing.md and the README, of a real run of examples/quickstart: `scripts/pictures`."""

import asyncio
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from labrunner.store.layout import RunPaths
from labrunner.store.reading.run_state import iter_trials
from labrunner.view.web.webserver import serving
from tests.kit.browser import page_of

REPOSITORY: Final = Path(__file__).parents[3]
TARGET: Final = REPOSITORY / "docs/pictures"
LAB: Final = str(Path(sys.executable).with_name("lab"))
QUALITY: Final = 55
WIDE, TALL = 1200, 860
READY: Final = "!!document.querySelector('canvas') && document.querySelectorAll('.tr a').length > 3"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copytree(REPOSITORY / "examples/quickstart", folder / "quickstart")
        argv = [LAB, "run", "--run-id", "quickstart", *sys.argv[1:]]
        subprocess.run(argv, cwd=folder / "quickstart", check=True, stdout=subprocess.DEVNULL)
        TARGET.mkdir(exist_ok=True)
        asyncio.run(take(folder, RunPaths(folder / "quickstart/.lab/runs/quickstart")))


async def take(folder: Path, paths: RunPaths) -> None:
    failed = next(row for row in iter_trials(paths) if row.verdict == "fail")
    async with serving(paths.root.parent) as place, page_of(folder) as page:
        base = f"http://127.0.0.1:{place.port}"
        await page.resize(WIDE, TALL)
        for name, path, until in (
            ("run", "/run/quickstart?map=difference", READY),
            ("trial", f"/run/quickstart/trial/{failed.ids.trial_id}", "!!document.querySelector('.log pre')"),
            (
                "compare",
                "/compare?a=quickstart&flip=average",
                "document.querySelectorAll('.scrolling dl').length == 2",
            ),
        ):
            await page.open("about:blank")
            await page.open(base + path)
            await page.wait_for(until)
            await page.run("new Promise((done) => setTimeout(done, 400))")  # it has to be drawn, too
            target = TARGET / f"{name}.webp"
            await page.picture(target, QUALITY)
            print(f"{target.relative_to(REPOSITORY)}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
