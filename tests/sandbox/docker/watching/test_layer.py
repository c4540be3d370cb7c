"""What a container changed, read from its layer: the same as the engine says."""

import os
from pathlib import Path

import pytest

from labrunner.sandbox.docker.watching.layer import Layer
from tests.kit.docker.site import Site
from tests.kit.sandbox.place import sh

ALIKE = {
    "a new file": "echo x > /usr/bin/new",
    "a new folder": "mkdir -p /opt/a/b/c; echo x > /opt/a/b/c/d",
    "a file changed": "echo x >> /etc/passwd",
    "a file removed": "rm /etc/group",
    "a folder removed": "rm -r /usr/lib/python3*/json",
    "a link": "ln -s /bin/sh /usr/bin/sh2",
    "rights changed": "chmod 700 /home/app",
    "rights given that were there": "chmod 755 /home/app; chmod 644 /etc/passwd",
    "opened, not written": ": >> /etc/passwd",
    "a name that is no text": "touch \"/opt-$(printf '\\377')\"",
    "come and gone": "touch /usr/bin/x; rm /usr/bin/x",
    "nothing": "true",
}
SET_BACK = "touch -r /etc/group /tmp/then; sed -i s/app/apt/ /etc/group; touch -r /tmp/then /etc/group"
DEEP = "cd /root; i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done"
ANEW = "rm -r /usr/lib/python3.11/json; mkdir /usr/lib/python3.11/json"


async def look(site: Site, script: str) -> tuple[set[str], set[str]]:
    """What the layer tells of a container in which an agent did something, and what the engine says."""
    if os.geteuid() != 0:
        pytest.skip("only root can look into the engine's folder")
    async with site.maker.open(site.spec()) as sandbox:
        await sandbox.run_agent(None, sh(script))
        (container,) = await site.maker.engine.list(f"labrunner.place={site.run.place}")
        state = await site.maker.engine.look(container.id)
        assert state.upper_dir is not None
        layer = Layer(upper=Path(state.upper_dir), lower=tuple(map(Path, state.lower_dirs)))
        told = {change.path for change in await site.maker.engine.changes(container.id)}
        found = set(layer.changes())
        await sandbox.run_grader(sh("true", name="grader"))
    return found, told


@pytest.mark.root
@pytest.mark.parametrize("name", ALIKE)
async def test_a_layer_tells_the_same_as_the_engine(site: Site, name: str) -> None:
    found, told = await look(site, ALIKE[name])
    assert found == told


@pytest.mark.root
async def test_a_file_whose_time_was_set_back_is_seen(site: Site) -> None:
    found, _ = await look(site, f"sed -i s/root/ruut/ /etc/passwd; {SET_BACK}")
    assert {"/etc/passwd", "/etc/group"} <= found


@pytest.mark.root
async def test_trees_without_end_are_seen_at_their_top(site: Site) -> None:
    found, told = await look(site, DEEP)
    assert "/root/d/d" in found < told


@pytest.mark.root
async def test_a_folder_made_anew_is_seen_as_one(site: Site) -> None:
    found, told = await look(site, ANEW)
    assert "/usr/lib/python3.11/json" in found & told
