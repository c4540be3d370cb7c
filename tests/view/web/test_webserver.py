"""The server as browsers and attackers meet it: real HTTP on loopback."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from labrunner.errors import InputError
from labrunner.records.encoding import canonical
from labrunner.runner.reports.recorded import read_experiment
from labrunner.runner.reports.results import summarise_run
from labrunner.view.web.webserver import Served, cookie_name, make_guard, serving
from tests.kit.made_runs import Script, Told, make_grid, mark, write_run
from tests.kit.view.left_behind import FAILED, HOSTILE, KEPT, LINK, TRIAL, refer, write_left


@asynccontextmanager
async def asking(runs_dir: Path, token: str | None = None) -> AsyncIterator["Asker"]:
    async with serving(runs_dir, token=token) as place:
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            yield Asker(session, place)


class Asker:
    """Asks, and keeps what the last answer was like."""

    def __init__(self, session: aiohttp.ClientSession, place: Served) -> None:
        self.session = session
        self.place = place
        self.headers: dict[str, str] = {}

    async def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
        url = f"http://127.0.0.1:{self.place.port}{path}"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(method, url, headers=named, allow_redirects=False) as answer:
            self.headers = dict(answer.headers)
            return answer.status, await answer.read()

    def listen(self) -> "aiohttp.client._RequestContextManager":
        return self.session.get(f"http://127.0.0.1:{self.place.port}/api/changes")

    async def told(self, path: str) -> Any:
        status, body = await self.get(path)
        assert status == 200, body
        return json.loads(body)


async def test_pages_of_other_names_sites_and_methods_get_nothing(tmp_path: Path) -> None:
    write_left(tmp_path / "runs")
    async with asking(tmp_path / "runs") as ask:
        assert (await ask.get("/api/runs"))[0] == 200
        assert (await ask.get("/api/runs", Host="evil.example"))[0] == 421
        assert (await ask.get("/", Host="evil.example"))[0] == 421
        assert (await ask.get("/api/runs", Origin="http://evil.example"))[0] == 403
        assert (await ask.get("/api/runs", Sec_Fetch_Site="cross-site"))[0] == 403
        assert (await ask.get("/api/changes", Sec_Fetch_Site="same-site"))[0] == 403
        for method in ("POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"):
            assert (await ask.get("/api/runs", method))[0] == 405


async def test_every_answer_forbids_scripts_of_others_frames_and_guessing(tmp_path: Path) -> None:
    write_left(tmp_path / "runs")
    async with asking(tmp_path / "runs") as ask:
        for path in ("/", "/pages/app.js", "/api/runs", "/api/run?run=nothing", "/no/such/page"):
            await ask.get(path)
            policy = ask.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self'" in policy
            assert "require-trusted-types-for 'script'" in policy
            assert "frame-ancestors 'none'" in policy
            assert ask.headers["X-Content-Type-Options"] == "nosniff"
            assert ask.headers["X-Frame-Options"] == "DENY"
            assert "Access-Control-Allow-Origin" not in ask.headers


async def test_a_token_is_exchanged_for_a_cookie_that_other_sites_cannot_use(tmp_path: Path) -> None:
    write_left(tmp_path / "runs")
    token = "0123456789abcdef"
    async with asking(tmp_path / "runs", token) as ask:
        assert (await ask.get("/api/runs"))[0] == 401
        assert (await ask.get("/?token=wrong"))[0] == 403
        status, _ = await ask.get(f"/run/left?token={token}")
        assert (status, ask.headers["Location"]) == (303, "/run/left")
        cookie = ask.headers["Set-Cookie"]
        assert cookie.startswith(cookie_name(ask.place.port))
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert token not in cookie
        assert (await ask.get("/api/runs"))[0] == 200


PATHS_OUT = (
    "/pages/../guard.py",
    "/pages/%2e%2e/web/guard.py",
    "/pages//etc/passwd",
    "/pages/vendor",
    "/api/run?run=../../etc",
    "/api/run?run=%2Fetc",
    "/api/run?run=.",
    "/api/run?run=",
    "/api/trial?run=left&trial=../../left",
    "/api/text?run=left&trial=x&attempt=1&digest=logs/agent.stdout",
)


async def test_no_path_leads_out(tmp_path: Path) -> None:
    write_left(tmp_path / "runs")
    async with asking(tmp_path / "runs") as ask:
        found = {path: (await ask.get(path))[0] for path in PATHS_OUT}
    assert set(found.values()) == {404}, found


def costing(cost_usd: float) -> Script:
    return lambda _: Told(usage={"cost_usd": cost_usd})


async def test_runs_are_sorted_by_what_the_address_says(tmp_path: Path) -> None:
    for name, cost in (("one", 3.0), ("two", 1.0), ("three", 2.0)):
        paths = write_run(tmp_path, make_grid(tasks=1, name=name), costing(cost), run_id=name)
        summary = summarise_run(read_experiment(paths), name, paths)
        paths.summary.write_bytes(canonical.encode_line(summary))
    async with asking(tmp_path) as ask:
        for words, order in (
            ("sort=cost", ["two", "three", "one"]),
            ("sort=cost&down=1", ["one", "three", "two"]),
            ("sort=run", ["one", "three", "two"]),
            ("sort=run&down=1&q=t", ["two", "three"]),
        ):
            told = await ask.told(f"/api/runs?{words}")
            assert [run["key"] for run in told["runs"]] == order, words
        newest = [run["key"] for run in (await ask.told("/api/runs"))["runs"]]
        assert [run["key"] for run in (await ask.told("/api/runs?down=1"))["runs"]] == newest[::-1]
        assert (await ask.get("/api/runs?sort=nothing"))[0] == 404


async def test_what_was_kept_in_a_folder_is_told_and_given_by_digest(tmp_path: Path) -> None:
    write_left(tmp_path / "runs")
    asked = f"run=left&trial={TRIAL}&attempt=1"
    async with asking(tmp_path / "runs") as ask:
        (folder,) = (await ask.told(f"/api/folders?{asked}"))["folders"]
        found = {change["path"]: change for change in folder["changes"]}
        assert folder["note"] == "it was changed since it was kept"
        assert {change["how"] for change in found.values()} == {"added"}
        assert "\\u202egnp.bytes" in found
        assert [change["why_none"] for change in found.values() if "patch" not in change] == ["no text"]
        for change in found.values():
            status, body = await ask.get(f"/api/raw?{asked}&digest={change['digest']}")
            assert (status, body in KEPT.values()) == (200, True)
            assert ask.headers["Content-Disposition"].startswith('attachment; filename="workspace_')
            assert "sandbox" in ask.headers["Content-Security-Policy"]
        for digest in ("sha256:0", "workspace/x", "../1/workspace/x"):
            assert (await ask.get(f"/api/raw?{asked}&digest={digest}"))[0] == 404
        assert (await ask.get(f"/api/folders?run=left&trial={TRIAL}&attempt=7"))[0] == 404


async def test_files_are_given_by_digest_as_downloads_and_never_through_links(tmp_path: Path) -> None:
    write_left(tmp_path / "runs", has_link=True)
    asked = f"run=left&trial={TRIAL}&attempt=1&digest="
    async with asking(tmp_path / "runs") as ask:
        status, body = await ask.get(f"/api/raw?{asked}{refer('logs/agent.stdout').digest}")
        assert (status, body) == (200, HOSTILE)
        assert ask.headers["Content-Disposition"] == 'attachment; filename="logs_agent.stdout"'
        assert ask.headers["Content-Type"] == "application/octet-stream"
        assert ask.headers["Content-Security-Policy"].startswith("sandbox;")
        assert ask.headers["X-Content-Type-Options"] == "nosniff"
        assert (await ask.get(f"/api/raw?{asked}{refer(LINK).digest}"))[0] == 404
        assert (await ask.get(f"/api/text?{asked}{refer(LINK).digest}"))[0] == 404
        assert (await ask.get(f"/api/raw?{asked}sha256:{'0' * 64}"))[0] == 404


async def test_answers_hold_no_control_characters_and_nothing_that_turns_text_around(tmp_path: Path) -> None:
    write_left(tmp_path / "runs")
    digest = refer("logs/agent.stdout").digest
    async with asking(tmp_path / "runs") as ask:
        shown = await ask.told(f"/api/text?run=left&trial={TRIAL}&attempt=1&digest={digest}")
        said = await ask.told(f"/api/conversation?run=left&trial={TRIAL}&attempt=1")
        trial = await ask.told(f"/api/trial?run=left&trial={TRIAL}")
    assert ["c1", "red"] in shown["pieces"]
    for told in (shown, said, trial):
        texts = texts_in(told)
        assert any("\\u202e" in text for text in texts)  # shown, not done
        assert not any(set("\x00\x1b\x07\u202e\u202c\u200b") & set(text) for text in texts)
    assert [entry["kind"] for entry in said["entries"]] == ["message", "message", "score"]


def texts_in(told: object) -> list[str]:
    match told:
        case str():
            return [told]
        case dict():
            return [text for each in told.values() for text in texts_in(each)]
        case list():
            return [text for each in told for text in texts_in(each)]
        case _:
            return []


async def test_a_run_its_map_its_errors_and_a_trial_are_told(tmp_path: Path) -> None:
    paths = write_left(tmp_path / "runs")
    async with asking(tmp_path / "runs") as ask:
        runs = await ask.told("/api/runs")
        run = await ask.told("/api/run?run=left")
        grid = await ask.told("/api/map?run=left&sort=errors&down=1&limit=2")
        errors = await ask.told("/api/errors?run=left")
        trial = await ask.told(f"/api/trial?run=left&trial={FAILED}")
        mark(paths, TRIAL, 0, "leaked")
        marked = await ask.told("/api/trials?run=left&ending=withdrawn")
    assert [(each["key"], each["state"]) for each in runs["runs"]] == [("left", "success")]
    assert run["summary"]["totals"]["error"] == 2
    assert "inputs" not in run["summary"]["ext"]
    assert [each["conclusion"] for each in run["conclusions"]] == ["too few tasks"]
    assert [task["task"] for task in grid["tasks"]] == ["t1", "t3"]
    assert grid["tasks"][0]["cells"] == [["e"], [1.0]]
    assert [(each["cause"], each["count"]) for each in errors["groups"]] == [("provider", 2)]
    assert (trial["ending"], trial["beside"]["variant"]) == ("error", trial["beside"]["next"])
    assert [each["attempt"] for each in trial["record"]["trial"]["attempts"]] == [1, 2]
    assert [row["trial_id"] for row in marked["rows"]] == [TRIAL]


async def test_variants_and_runs_are_compared_with_trials_to_look_at(tmp_path: Path) -> None:
    write_left(tmp_path / "runs")
    write_left(tmp_path / "runs", "again")
    async with asking(tmp_path / "runs") as ask:
        variants = await ask.told("/api/compare?a=left")
        runs = await ask.told("/api/compare?a=left&b=again")
        status, _ = await ask.get("/api/compare?a=left&b=../left")
    (pair,) = variants["comparisons"]
    assert (pair["baseline"], pair["other"], pair["conclusion"]) == ("a", "b", "too few tasks")
    assert {flip["task_id"] for flip in pair["up"]} <= {f"t{number}" for number in range(6)}
    assert (pair["baseline_run"], pair["other_run"]) == ("left", "left")
    assert [(each["baseline_run"], each["other_run"]) for each in runs["comparisons"]] == [
        ("left", "again")
    ] * 2
    assert runs["comparisons"][0]["baseline"] == "left:a"
    assert status == 404


async def test_sql_is_answered_as_on_the_command_line_and_reaches_nothing_else(tmp_path: Path) -> None:
    write_left(tmp_path / "runs")
    asked = "/api/query?run=left&sql="
    async with asking(tmp_path / "runs") as ask:
        told = await ask.told(f"{asked}select cause, count(*) n from trials group by cause order by n")
        odd = await ask.told(f"{asked}select 1e308::double * 10, 1152921504606846976, 1.5::decimal(4,1), [1]")
        refused = [
            (await ask.get(f"{asked}{sql}"))[0]
            for sql in ("select * from read_text('/etc/passwd')", "drop table trials", "selec", "")
        ]
    assert (told["columns"], told["rows"]) == (["cause", "n"], [["provider", 2], [None, 9]])
    assert odd["rows"] == [["inf", "1152921504606846976", 1.5, "[1]"]]
    assert refused == [404, 404, 404, 404]


async def test_damaged_runs_and_those_of_another_version_are_told_with_what_to_type(tmp_path: Path) -> None:
    paths = write_left(tmp_path / "runs")
    data = paths.trials.read_bytes()
    paths.trials.write_bytes(data.replace(b'"ids":', b'"1ds":', 1))
    other = write_left(tmp_path / "runs", "other")
    newer = other.run.read_bytes().replace(b'"run_v1"', b'"run_v9"').replace(b'"0.1.0"', b'"9.1.0"')
    other.run.write_bytes(newer)
    async with asking(tmp_path / "runs") as ask, asyncio.timeout(30):
        status, body = await ask.get("/api/trials?run=left")
        while (listed := await list_states(ask))["left"][0] == "success":
            pass  # it is looked at in the background
    assert status == 409
    assert "lab log recover" in json.loads(body)["problem"]
    assert listed["left"] == ("damaged", f"lab log recover {paths.root}")
    assert listed["other"] == ("foreign", "pip install labrunner==9.1.0")


async def list_states(ask: "Asker") -> dict[str, tuple[str, str]]:
    told = await ask.told("/api/runs")
    return {run["key"]: (run["state"], run["type_next"]) for run in told["runs"]}


async def test_listeners_hear_which_run_has_changed(tmp_path: Path) -> None:
    paths = write_left(tmp_path / "runs")
    async with asking(tmp_path / "runs") as ask, asyncio.timeout(30), ask.listen() as stream:
        assert stream.headers["Content-Type"] == "text/event-stream"
        assert "default-src 'none'" in stream.headers["Content-Security-Policy"]
        assert await stream.content.readline() == b": listening\n"
        while (news := await next_news(stream)) is None:
            mark(paths, TRIAL, 0, "again")  # what is there when somebody begins to listen is no news
    assert news == {"runs": ["left"]}


async def next_news(stream: aiohttp.ClientResponse) -> Any:
    """What is told next; None where nothing is for a while."""
    line = b""
    with suppress(TimeoutError):
        async with asyncio.timeout(1):
            while not line.startswith(b"data:"):
                line = await stream.content.readline()
    return json.loads(line.removeprefix(b"data:")) if line.startswith(b"data:") else None


async def test_a_second_server_finds_a_port_of_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path) as first, serving(tmp_path) as second:
        assert first.port != second.port
        with pytest.raises(InputError, match="Address already in use"):
            async with serving(tmp_path, port=first.port):
                pass


def test_an_address_that_others_can_reach_needs_a_token_that_nobody_guesses() -> None:
    with pytest.raises(InputError, match="needs a token"):
        make_guard("0.0.0.0", None)
    with pytest.raises(InputError, match="at least 16"):
        make_guard("127.0.0.1", "short")
    assert socket.gethostname().lower() in make_guard("0.0.0.0", "0123456789abcdef").names
