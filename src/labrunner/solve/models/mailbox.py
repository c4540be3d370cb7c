"""Handing work from one thread's loop to another's: many letters wake a loop once.

Waking another thread's loop costs a system call and a change of threads each time; when hundreds of trials
come and go, most letters find their loop called already.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class Mailbox:
    """Takes letters for one loop, from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve a loop, running or not."""
        self.loop = loop
        self._letters: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._is_called = False

    def post(self, act: Callable[..., None], *args: Any) -> None:  # noqa: ANN401 - handed on as they are
        """Have something done in the loop, soon."""
        self._letters.append((act, args))
        if not self._is_called:
            self._is_called = True
            self.loop.call_soon_threadsafe(self._open)

    def _open(self) -> None:
        # Before the first letter is taken: one that comes while we read either is read, or calls again.
        self._is_called = False
        while self._letters:
            act, args = self._letters.popleft()
            act(*args)


_here: ContextVar[Mailbox | None] = ContextVar("labrunner_mailbox", default=None)


class Errand(asyncio.Future[T]):
    """Work in another loop, as the loop that asked for it waits for it."""

    task: asyncio.Task[T] | None = None
    is_recalled = False


def send(there: Mailbox, back: Mailbox, make: Callable[[], Coroutine[Any, Any, T]], name: str) -> Errand[T]:
    """Have work carried out in another loop, in this context; called from the loop of `back`."""
    errand: Errand[T] = Errand(loop=back.loop)
    there.post(_begin, errand, there, back, make, name, copy_context())
    return errand


def recall(there: Mailbox, errand: Errand[Any]) -> None:
    """Cancel work that was sent; its end still comes."""
    errand.is_recalled = True  # now: a loop that is blocked must not begin with it when it comes back
    there.post(_cancel, errand)


async def call(there: Mailbox, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Have work done in another loop and wait for it; being cancelled recalls it."""
    if asyncio.get_running_loop() is there.loop:
        return await make()
    back = _here.get()
    if back is None:
        back = Mailbox(asyncio.get_running_loop())
    errand = send(there, back, make, "errand")
    try:
        return await asyncio.shield(errand)
    except asyncio.CancelledError:
        recall(there, errand)
        raise


def _begin(
    errand: Errand[T],
    there: Mailbox,
    back: Mailbox,
    make: Callable[[], Coroutine[Any, Any, T]],
    name: str,
    context: Context,
) -> None:
    if errand.is_recalled:
        back.post(_give_up, errand)
        return
    context.run(_here.set, there)
    # The loop that carries it out is the task's owner; the errand hears of its end, whatever it is.
    task = there.loop.create_task(make(), name=name, context=context)
    errand.task = task
    task.add_done_callback(lambda task: _tell_end(back, errand, task))


def _tell_end(back: Mailbox, errand: Errand[T], task: asyncio.Task[T]) -> None:
    with suppress(RuntimeError):  # that loop is closed: whoever waited there is gone
        back.post(_settle, errand, task)


def _give_up(errand: Errand[Any]) -> None:
    errand.cancel()


def _cancel(errand: Errand[Any]) -> None:
    if errand.task is not None:
        errand.task.cancel()


def _settle(errand: Errand[T], task: asyncio.Task[T]) -> None:
    if errand.done():
        if not task.cancelled():
            task.exception()  # nobody waits for it any more: it counts as heard
        return
    if task.cancelled():
        errand.cancel()
    elif (error := task.exception()) is not None:
        errand.set_exception(error)
    else:
        errand.set_result(task.result())
