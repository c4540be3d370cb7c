"""The pages' modules as one script."""

import pytest

from labrunner.view.handout.scripts import join_scripts
from labrunner.view.pagefiles import read_pages


def test_modules_stand_behind_those_that_they_import_each_once() -> None:
    script = join_scripts(read_pages())
    places = {name: script.index(f"M['{name}'] =") for name in read_pages() if name.endswith(".js")}
    assert places["vendor/preact.js"] < places["vendor/hooks.js"] < places["dom.js"] < places["app.js"]
    assert max(places, key=lambda name: places[name]) == "app.js"
    assert all(script.count(f"M['{name}'] =") == 1 for name in places)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (b'import * as all from "./other.js";', "can't be put into one script"),
        (b"export let now = 1;", "can't be put into one script"),
        (b'const end = "</script>";', "would end the element"),
    ],
)
def test_what_is_not_known_how_to_join_is_refused_here_and_not_in_a_browser(text: bytes, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        join_scripts({"app.js": text, "other.js": b""})
