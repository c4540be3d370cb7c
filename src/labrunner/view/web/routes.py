"""What can be asked, and how it is answered: one function a question, each a look at the runs' files.

Rules: every text of an answer passes through `safetext` here, in one place. Files are found by trial and
digest. What a person or a run's state is to blame for is an answer, with a sentence; what is not, is a bug.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import IO, Final

import msgspec
from aiohttp import web

from labrunner.display.text.safetext import sanitise
from labrunner.errors import InputError, LabError
from labrunner.records.rows import SlotRows
from labrunner.store.layout import RunPaths
from labrunner.view.left.beginning import beginnings
from labrunner.view.left.conversing import read_conversation
from labrunner.view.left.keptfiles import KeptFile, find_kept, read_window
from labrunner.view.left.keptfolders import tell_changes
from labrunner.view.left.phrase import Phrase
from labrunner.view.plain.safe_json import make_safe
from labrunner.view.seen.asking_sql import answer_sql
from labrunner.view.seen.lookout import Lookout
from labrunner.view.seen.passages import Sought, look_through
from labrunner.view.seen.runsight import RunsAsked, see_run, see_runs
from labrunner.view.seen.screenful import MOST_ROWS, TableAsked, group_errors, take_map, take_trials
from labrunner.view.seen.timeline import tell_times
from labrunner.view.seen.trialsight import find_rows, find_slot, read_live, see_trial
from labrunner.view.seen.versus import Contests
from labrunner.view.web.feed import Feed
from labrunner.view.web.guard import RAW_HEADERS

Look = Callable[[Lookout, "Wish"], object]
PIECE: Final = 256 * 1024
STILL_S: Final = 15.0
"""After so long without news a line is sent all the same, so that a page that is gone is noticed."""


class Wish:
    """The words of a question, each taken strictly."""

    def __init__(self, words: "web.BaseRequest") -> None:
        """Take a request's query."""
        self._words = words.query

    def text(self, name: str) -> str:
        """A word that has to be there."""
        found = self.maybe(name)
        if found is None:
            raise InputError(name, "is missing")
        return found

    def maybe(self, name: str) -> str | None:
        """A word that may be there."""
        return self._words.get(name) or None

    def number(self, name: str, default: int | None = None) -> int | None:
        """A whole number that may be there."""
        found = self.maybe(name)
        if found is None:
            return default
        if not found.isdecimal() or len(found) > 18 or not found.isascii():
            raise InputError(name, f"must be a whole number, not {found!r}")
        return int(found)

    def count(self, name: str, default: int = 0) -> int:
        """A whole number, or its default."""
        found = self.number(name, default)
        return default if found is None else found

    def words(self, name: str) -> tuple[str, ...]:
        """Words to look for, small."""
        return tuple((self.maybe(name) or "").lower().split())

    def flag(self, name: str) -> bool:
        """Whether something is asked for."""
        return self.maybe(name) == "1"


def _runs(lookout: Lookout, wish: Wish) -> object:
    asked = RunsAsked(
        words=wish.words("q"),
        state=wish.maybe("state"),
        sort=wish.maybe("sort") or "begun",
        is_descending=wish.flag("down"),
        offset=wish.count("offset"),
    )
    return see_runs(lookout, asked)


def _run(lookout: Lookout, wish: Wish) -> object:
    return see_run(lookout.picture(wish.text("run"), is_hurried=wish.flag("soon")))


def _trials(lookout: Lookout, wish: Wish) -> object:
    asked = TableAsked(
        words=wish.words("q"),
        ending=wish.maybe("ending"),
        variant=wish.maybe("variant"),
        cause=wish.maybe("cause"),
        text=wish.maybe("text"),
        sort=wish.maybe("sort") or "slot",
        is_descending=wish.flag("down"),
        offset=wish.count("offset"),
        limit=wish.count("limit", MOST_ROWS),
    )
    with lookout.board(wish.text("run")) as board:
        return take_trials(board, asked)


def _map(lookout: Lookout, wish: Wish) -> object:
    with lookout.board(wish.text("run")) as board:
        return take_map(
            board,
            sort=wish.maybe("sort") or "order",
            is_descending=wish.flag("down"),
            offset=wish.count("offset"),
            limit=wish.count("limit", MOST_ROWS),
        )


def _search(lookout: Lookout, wish: Wish) -> object:
    phrase = Phrase.of(wish.text("q"))
    with lookout.board(wish.text("run")) as board:
        sought = Sought.of(board, phrase, wish.count("from"))
    return look_through(sought, phrase)  # without the board's lock: others may ask meanwhile


def _errors(lookout: Lookout, wish: Wish) -> object:
    with lookout.board(wish.text("run")) as board:
        return {"groups": group_errors(board)}


def _times(lookout: Lookout, wish: Wish) -> object:
    with lookout.board(wish.text("run")) as board:
        return tell_times(board)


def _trial(lookout: Lookout, wish: Wish) -> object:
    with lookout.board(wish.text("run")) as board:
        return see_trial(board, find_slot(board, wish.maybe("trial"), wish.number("slot")))


def _live(lookout: Lookout, wish: Wish) -> object:
    paths = lookout.find(wish.text("run"))
    return read_live(paths, wish.text("trial"))


def _conversation(lookout: Lookout, wish: Wish) -> object:
    paths, rows = _find_finished(lookout, wish)
    attempt = wish.count("attempt", rows.attempt)
    logs = next((each.logs for each in rows.timing.attempts if each.attempt == attempt), None)
    if logs is None:
        raise InputError("attempt", f"{rows.trial_id} has no attempt {attempt}")
    return read_conversation(paths.attempt(rows.trial_id, attempt), logs, wish.count("offset"))


def _text(lookout: Lookout, wish: Wish) -> object:
    return read_window(_find_kept(lookout, wish), wish.number("end"))


def _folders(lookout: Lookout, wish: Wish) -> object:
    paths, rows = _find_finished(lookout, wish)
    with beginnings(paths) as began:
        return {"folders": tell_changes(paths, rows, wish.count("attempt", rows.attempt), began)}


def _query(lookout: Lookout, wish: Wish) -> object:
    return answer_sql(lookout, [wish.text("run")], wish.text("sql"))


def _comparing(contests: Contests) -> Look:
    def look(lookout: Lookout, wish: Wish) -> object:
        names = [name for name in (wish.text("a"), wish.maybe("b")) if name is not None]
        return contests.hold(lookout, names, wish.maybe("baseline"))

    return look


def _find_finished(lookout: Lookout, wish: Wish) -> tuple[RunPaths, SlotRows]:
    paths, trial = lookout.find(wish.text("run")), wish.text("trial")
    rows = find_rows(paths, trial)
    if rows is None:
        raise InputError("trial", f"no finished trial of this run is called {trial!r}")
    return paths, rows


def _find_kept(lookout: Lookout, wish: Wish) -> KeptFile:
    paths, rows = _find_finished(lookout, wish)
    return find_kept(paths, rows, wish.count("attempt"), wish.text("digest"))


def _open_kept(lookout: Lookout, wish: Wish) -> tuple[KeptFile, IO[bytes]]:
    kept = _find_kept(lookout, wish)
    return kept, kept.open()


LOOKS: Final[dict[str, Look]] = {
    "runs": _runs,
    "run": _run,
    "trials": _trials,
    "map": _map,
    "search": _search,
    "errors": _errors,
    "times": _times,
    "trial": _trial,
    "live": _live,
    "conversation": _conversation,
    "text": _text,
    "folders": _folders,
    "query": _query,
}


def make_routes(lookout: Lookout, feed: Feed) -> list[web.RouteDef]:
    """Every question that can be asked about runs."""
    looks = {**LOOKS, "compare": _comparing(Contests())}
    return [
        *(web.get(f"/api/{name}", _answer(lookout, look)) for name, look in looks.items()),
        web.get("/api/changes", _news(feed)),
        web.get("/api/raw", _raw(lookout)),
    ]


def _answer(lookout: Lookout, look: Look) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        wish = Wish(request)
        try:
            with lookout.soundness.quiet.answering():
                told = await asyncio.to_thread(look, lookout, wish)
        except InputError as error:
            return _say(404, {"problem": error.describe()})
        except LabError as error:
            return _say(409, {"problem": error.describe()})
        return _say(200, told)

    return answer


def _say(status: int, told: object) -> web.Response:
    body = msgspec.json.encode(make_safe(msgspec.to_builtins(told)))
    return web.Response(status=status, body=body, content_type="application/json")


def _raw(lookout: Lookout) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        wish = Wish(request)
        try:
            kept, file = await asyncio.to_thread(_open_kept, lookout, wish)
        except LabError as error:
            return _say(404, {"problem": error.describe()})
        with file:
            response = web.StreamResponse(headers=RAW_HEADERS)
            name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in kept.ref.path)
            response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
            await response.prepare(request)
            while piece := await asyncio.to_thread(file.read, PIECE):
                await response.write(piece)
            await response.write_eof()
        return response

    return answer


def _news(feed: Feed) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        with suppress(ConnectionResetError):  # whoever listened has gone
            async with feed.listen() as news:
                await response.write(b": listening\n\n")
                while True:
                    await response.write(await _next_line(news))
        return response

    return answer


async def _next_line(news: "asyncio.Queue[str]") -> bytes:
    try:
        async with asyncio.timeout(STILL_S):
            names = {await news.get()}
    except TimeoutError:
        return b": still here\n\n"
    while not news.empty():
        names.add(news.get_nowait())
    told = msgspec.json.encode({"runs": sorted(map(sanitise, names))})
    return b"event: changed\ndata: " + told + b"\n\n"
