import asyncio
import os
import signal

import pytest

from labrunner.records.run import RunError
from labrunner.runner.sitting.stopping import GaveUp, Interrupted, StopRequest, signals_stop

PATIENCE_S = 10


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_the_first_signal_asks_and_the_second_hurries(number: signal.Signals) -> None:
    request = StopRequest()
    with signals_stop(request):
        os.kill(os.getpid(), number)
        await asyncio.wait_for(request.stopped.wait(), PATIENCE_S)
        assert not request.hurried.is_set()
        os.kill(os.getpid(), number)
        await asyncio.wait_for(request.hurried.wait(), PATIENCE_S)
    assert request.reason == Interrupted(signal_name=number.name)


async def test_a_run_that_gives_up_is_hurried_by_the_first_signal_and_keeps_its_reason() -> None:
    request, reason = StopRequest(), GaveUp(error=RunError(message="too many errors"))
    with signals_stop(request):
        request.ask(reason)
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(request.hurried.wait(), PATIENCE_S)
    assert request.is_interrupted
    assert request.reason == reason
