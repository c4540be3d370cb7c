"""What a node tells of one attempt, however it ends."""

import errno
from pathlib import Path

import pytest

from labrunner.executor.cluster.onnode.nodecall import BUG, DISK, NodeCall
from labrunner.executor.cluster.tidings import NodeFailure, decode_told
from labrunner.files.strangers.masking import make_masker
from labrunner.records.completion import Completion
from labrunner.trial.assignment import Notes

SECRET = "sk-of-a-model-5512fe"


async def hear_end(root: Path, error: Exception) -> NodeFailure:
    async def carry_out(notes: Notes) -> Completion:
        del notes
        raise error

    call = NodeCall(carry_out, root, "always", make_masker({"KEY": SECRET}))
    (told,) = [decode_told(data) async for data in call.messages()]
    assert isinstance(told, NodeFailure)
    return told


async def test_a_bug_of_our_own_is_told_with_its_traceback_and_without_secrets(tmp_path: Path) -> None:
    told = await hear_end(tmp_path, KeyError(f"no {SECRET} here"))
    assert told.reason == BUG
    assert told.traceback is not None
    assert "in carry_out" in told.traceback
    assert "KeyError: 'no [masked:KEY] here'" in told.traceback
    assert told.message == "carrying it out: 'no [masked:KEY] here'"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE])
async def test_a_disk_that_takes_nothing_is_told_as_that(tmp_path: Path, number: int) -> None:
    told = await hear_end(tmp_path, OSError(number, "told by the kernel"))
    assert (told.reason, told.traceback) == (DISK, None)


async def test_an_error_of_a_file_that_is_no_full_disk_is_our_own(tmp_path: Path) -> None:
    told = await hear_end(tmp_path, FileNotFoundError(errno.ENOENT, "no such file", "/x"))
    assert told.reason == BUG
