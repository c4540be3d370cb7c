"""Who must see work to its end, whatever cancellations come; and that nobody else tries to."""

import ast
import asyncio
import time
from pathlib import Path

import labrunner
from labrunner.files.uninterrupted import wait_out

SOURCE = Path(labrunner.__file__).parent


async def test_cancellations_do_not_cut_a_wait_short_and_the_last_is_handed_back() -> None:
    work: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(wait_out(work))
    for _ in range(3):
        await asyncio.sleep(0)
        waiting.cancel()
    await asyncio.sleep(0)
    assert not waiting.done()

    work.set_result("done")

    assert isinstance(await waiting, asyncio.CancelledError)


async def test_a_wait_that_nobody_disturbed_hands_nothing_back() -> None:
    work = asyncio.ensure_future(asyncio.sleep(0, "done"))

    assert await wait_out(work) is None
    assert work.result() == "done"


async def test_a_wait_ends_at_its_time_and_leaves_the_work_alone() -> None:
    work: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    assert await wait_out(work, until=time.monotonic() + 0.01) is None
    assert not work.done()


def find_swallowed(tree: ast.AST) -> list[int]:
    """Lines of handlers that name `CancelledError` and do not end by raising."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and node.type is not None
        and "CancelledError" in ast.dump(node.type)
        and not isinstance(node.body[-1], ast.Raise)
    ]


def test_nobody_else_waits_on_after_a_cancellation() -> None:
    found = {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if find_swallowed(ast.parse(file.read_text()))
    }

    assert found == {"files/uninterrupted.py"}
