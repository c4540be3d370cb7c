"""The few exceptions of this program, each with the exit code that it ends a command with.

An exception means that somebody has to act. What goes wrong inside an attempt is a record with a
cause (`labrunner.records.cause`), not one of these; `AttemptFailed` is the one bridge between the two.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import ClassVar, Final, TypeGuard

from labrunner.records.cause import Cause

_DISK_GAVE_OUT: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})
_NO_MORE_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})


class ExitCode(IntEnum):
    """What a `lab` command's exit status says."""

    SUCCESS = 0
    RUN_FAILED = 1
    BAD_INPUT = 2
    STORAGE = 3
    NOT_MET = 4
    INTERRUPTED = 130


class LabError(Exception):
    """Root of everything that this program raises on purpose."""

    exit_code: ClassVar[ExitCode] = ExitCode.RUN_FAILED

    def describe(self) -> str:
        """The message, and below it what was noted on the way up: what to try."""
        return "\n".join([str(self), *getattr(self, "__notes__", ())])


class InputError(LabError):
    """Something that a person wrote can't be used: an experiment file, a task row, an option."""

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, where: str, problem: str) -> None:
        """Say where (file and field) and what was found, with what would be right."""
        self.where = where
        self.problem = problem
        super().__init__(f"{where}: {problem}" if where else problem)


class InputErrors(LabError):
    """Several input errors found in one go, so that people mend them in one go."""

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, problems: list[InputError]) -> None:
        """Keep the problems in the order in which they were found."""
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in problems))


class StoreError(LabError):
    """Storage failed: a write or a sync did not go through. Never tried again on the same file."""

    exit_code = ExitCode.STORAGE


class OutOfFiles(StoreError):
    """This process may open no more files: nobody's fault in an attempt, and the end of a run."""

    @classmethod
    def says(cls, error: BaseException) -> TypeGuard[OSError]:
        """Whether an error is that."""
        return isinstance(error, OSError) and error.errno in _NO_MORE_FILES


class DamagedRun(StoreError):
    """A run's files contradict its journal in a way that no crash of ours can explain."""


class RunLocked(LabError):
    """Another process owns the run."""

    exit_code = ExitCode.BAD_INPUT


class AttemptFailed(LabError):
    """Something ended an attempt without a grade; `labrunner.trial` turns it into a record."""

    cause: ClassVar[Cause] = Cause.RUNNER

    def __init__(self, reason: str, message: str, traceback: str | None = None) -> None:
        """Name the reason in one machine-readable word, and tell people the rest in `message`.

        Of our own bug on another machine there is a `traceback`, too.
        """
        self.reason, self.traceback = reason, traceback
        super().__init__(message)

    @classmethod
    @contextmanager
    def during(cls, reason: str, doing: str) -> Iterator[None]:
        """Blame this class for whatever escapes, unless a more exact one was blamed before.

        A disk that takes nothing any more is nobody's fault in the attempt: it ends the run, to be continued.
        """
        try:
            yield
        except LabError:
            raise
        except Exception as error:
            if OutOfFiles.says(error):
                raise OutOfFiles(f"{doing}: too many open files") from error
            if isinstance(error, OSError) and error.errno in _DISK_GAVE_OUT:
                raise StoreError(f"{doing}: {os.strerror(error.errno).lower()}") from error
            raise cls(reason, f"{doing}: {error}") from error


class SandboxFailed(AttemptFailed):
    """The place where the attempt ran is to blame: engine, image, host, or the barrier."""

    cause = Cause.SANDBOX


class SystemBroken(SandboxFailed):
    """The agent left a system in which no grader can be run: its failure, to be judged as one."""


class SetupFailed(AttemptFailed):
    """The task's setup, or a tool that it needs, is to blame."""

    cause = Cause.SETUP


class GraderFailed(AttemptFailed):
    """The grader gave no judgement that can be used."""

    cause = Cause.GRADE_ERROR


class ProviderFailed(AttemptFailed):
    """A model provider failed after its own retries, or an agent said so by its exit status."""

    cause = Cause.PROVIDER


class AccountRefused(ProviderFailed):
    """A model provider refused the account, or knows no such model: waiting mends nothing."""

    cause = Cause.ACCOUNT


class ReplayMissed(AttemptFailed):
    """A recorded run has no answer to what was asked, and nobody else may give one."""

    cause = Cause.REPLAY
