"""The entry point: finds the command, loads only that, and turns errors into exit codes.

Rules: this is the one place where a `LabError` becomes a message and an exit code. What takes time to load is
loaded below `main`, where a signal is awaited already.
"""

import errno
import faulthandler
import gc
import importlib
import os
import sys
from collections.abc import Callable

from labrunner.cli import signals

_OF_THE_PLACE = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ELOOP, errno.ENAMETOOLONG}
)
"""What the folders and files of this machine are to blame for, wherever it shows."""


def main() -> None:
    """Run `lab`."""
    signals.leave_at_once()
    code = signals.INTERRUPTED
    try:
        _open_closed_streams()
        faulthandler.enable()  # a library that crashes tells where
        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        pass  # between two steps of ours: nothing is under way
    finally:
        signals.leave_at_once(code)
    if _is_held_up():
        signals.leave(code)
    sys.exit(code)


def _is_held_up() -> bool:
    """Whether a library would keep this process from ending: it waits for who says nothing any more."""
    rayport = sys.modules.get("labrunner.executor.cluster.rayport")  # few commands have loaded it
    return rayport is not None and rayport.does_head_hang()


def run(argv: list[str]) -> int:
    """Run one command and return its exit code."""
    from labrunner.cli import catalogue
    from labrunner.version import VERSION

    if argv[:1] == ["help"] and argv[1:]:
        argv = [*argv[1:], "--help"]
    if not argv or argv[0] in {"-h", "--help", "help"}:
        return _guarded("lab", lambda: _tell(catalogue.help_page()))
    if argv[0] == "--version":
        return _guarded("lab", lambda: _tell(f"labrunner {VERSION}"))
    command = catalogue.find(argv[0])
    if command is None:
        return _unknown(argv[0])
    return _guarded(f"lab {argv[0]}", lambda: _call(command.module, argv[0], with_values(argv[1:])))


def with_values(argv: list[str]) -> list[str]:
    """Give options whose value is optional one, so that they never swallow the word behind them."""
    from labrunner.experiment.options.table import fill_in

    return [fill_in(word) for word in argv]


def _unknown(name: str) -> int:
    import difflib

    from labrunner.cli import catalogue

    known = [*catalogue.COMMANDS, *(alias for c in catalogue.COMMANDS.values() for alias in c.aliases)]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean `lab {near[0]}`?" if near else f"commands: {', '.join(catalogue.COMMANDS)}"
    sys.stderr.write(f"lab: there is no command {name!r}; {hint}\n")
    return 2


def _tell(text: str) -> int:
    sys.stdout.write(f"{text}\n")
    return 0


def _guarded(name: str, act: Callable[[], int]) -> int:
    from labrunner.errors import ExitCode, LabError

    code = int(ExitCode.SUCCESS)
    try:
        code = act()
        sys.stdout.flush()
    except LabError as error:
        from labrunner.display.text.saying import say_aside

        say_aside(f"{name}: {error.describe()}")
        return int(error.exit_code)
    except KeyboardInterrupt:
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has enough. Python would write what is left once more at exit.
        _drop_output()
    except OSError as error:
        if (known := _explain(error)) is None:
            raise
        sys.stderr.write(f"{name}: {known[1]}\n")
        return known[0]
    return code


def _open_closed_streams() -> None:
    """Open what is closed of the three streams.

    Else a file of the run gets the number of one, and with it what programs that we start write there.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            lowest_free = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(lowest_free, True)
            setattr(sys, name, os.fdopen(lowest_free, mode))


def _explain(error: OSError) -> tuple[int, str] | None:
    """Exit code and sentence for what is neither the run's trouble nor a bug."""
    from labrunner.errors import ExitCode

    if error.filename is None and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        _drop_output()
        return int(ExitCode.STORAGE), f"writing to standard output: {error.strerror}"
    try:
        os.getcwd()  # noqa: PTH109 - the plain question
    except FileNotFoundError:
        return int(ExitCode.BAD_INPUT), "the current folder is gone; change to one that exists"
    if error.filename is not None and error.errno in _OF_THE_PLACE:
        from labrunner.files.durable import say

        return int(ExitCode.STORAGE), f"{error.filename}: {say(error)}"
    return None


def _drop_output() -> None:
    """Let what is still to be written to standard output go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _load(module: str) -> Callable[..., object]:
    """Import a command without looking for garbage: there is none yet, and looking costs a sixth of it."""
    gc.disable()
    try:
        app: Callable[..., object] = importlib.import_module(module).app
        return app
    finally:
        gc.freeze()
        gc.enable()


def _call(module: str, name: str, argv: list[str]) -> int:
    app = _load(module)
    signals.raise_interrupts()
    if "logging" in sys.modules:  # else nothing of this command reports anything
        from labrunner.cli import lines

        lines.show()
    try:
        app(args=argv, prog_name=f"lab {name}")
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # typer calls that a failure
            raise ended.__context__ from None
        return ended.code if isinstance(ended.code, int) else 0
    return 0
