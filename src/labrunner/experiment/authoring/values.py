"""Values of authored fields that may be written in more than one way, each decoded by one function.

Each function takes what stands in the file and gives the value of the resolved experiment, or raises a
`BadValue` whose text says what was found and what would be right. `Shown` is how the reference page writes
such a type.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, PlainValidator

from labrunner.experiment.allowlist import parse_line
from labrunner.experiment.authoring.problems import found
from labrunner.experiment.resolved import Network
from labrunner.experiment.sandbox_kinds import check_kind
from labrunner.policy.causes import BLAMABLE
from labrunner.records.encoding import canonical

HALF_A_CHARACTER: Final = "holds half of a character (a lone surrogate), which can't be written as UTF-8"
_LONGEST_ID: Final = 200
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_OWN_NAMES: Final = frozenset({"HOME", "TMPDIR"})
_LIMITS: Final = ("cost_usd", "tokens", "requests")
_TMPFS_SIZE: Final = re.compile(r"[0-9]+[kmg]?\Z", re.IGNORECASE)
_TMPFS_OPTION: Final = re.compile(
    r"(rw|ro|(no)?(exec|suid|dev|atime)|(size|nr_inodes)=[0-9]+[kmg%]?|(mode|uid|gid)=[0-9]+)\Z"
)
_FAIL_ON_ERROR: Final = (
    "must be true (fail at the first error), false (never), a share of the planned trials between 0 and 1, "
    "or a number of trials from 1 on"
)


class BadValue(ValueError):
    """What an author wrote can't be used; the text goes to the author as it is."""


@dataclass(frozen=True, slots=True)
class Shown:
    """How the reference page writes a type."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """A file to copy into the workspace, as its author named it."""

    source: str


def parse_command(value: object) -> tuple[str, ...]:
    """Decode a command: a list of texts, or one text for `sh -c`."""
    if isinstance(value, str) and value.strip():
        return ("sh", "-c", _no_nul(value))
    if not isinstance(value, list):
        raise BadValue(f"must be a list of texts, or one text that sh -c runs, found {_text_found(value)}")
    for number, item in enumerate(value):
        if not isinstance(item, str):
            raise BadValue(f"item {number} must be text, found {found(item)}; quote it")
        _no_nul(item)
    if value and not value[0]:
        raise BadValue("item 0, the program, must not be empty")
    return tuple(value)


def parse_env(value: object) -> dict[str, str | None]:
    """Decode variables: text or whole numbers; null takes a variable of the base away."""
    if not isinstance(value, dict):
        raise BadValue(f"must be a map of variables, found {found(value)}")
    return {check_env_name(name): _env_value(name, each) for name, each in value.items()}


def check_env_name(name: object) -> str:
    """Check the name of a variable."""
    if not isinstance(name, str) or not _ENV_NAME.match(name):
        raise BadValue(f"'{name}' can't be a variable's name: letters, digits and _, no digit first")
    if name.startswith("AGENTLAB_") or name in _OWN_NAMES:
        raise BadValue(f"the variable {name} is set by lab; choose another name")
    return name


def parse_network(value: object) -> Network:
    """Decode what a phase other than the agent's may reach."""
    if isinstance(value, dict) and "models" in value:
        raise BadValue("models are for agents only: write none, full or {allow: [host, …]}")
    return _parse_network(value, "none, full or {allow: [host, …]}")


def parse_agent_network(value: object) -> Network:
    """Decode what an agent may reach."""
    return _parse_network(value, "none, full or {models: [name, …], allow: [host, …]}")


def _parse_network(value: object, right: str) -> Network:
    if value == "none":
        return Network(mode="none")
    if value == "full":
        return Network(mode="full")
    if not isinstance(value, dict) or not value or not set(value) <= {"models", "allow"}:
        odd = [key for key in value if key not in ("models", "allow")] if isinstance(value, dict) else []
        told = f"a map with the unknown field '{odd[0]}'" if odd else found(value)
        raise BadValue(f"must be {right}, found {told}")
    models, allow = value.get("models", []), value.get("allow", [])
    names = _texts(models, "models", "names of entries of `models`") if "models" in value else ()
    if allow == "full" and names:
        return Network(mode="full", models=names)
    hosts = _texts(allow, "allow", "hosts") if "allow" in value else ()
    for host in hosts:
        try:
            parse_line(host)
        except ValueError as error:
            raise BadValue(f"allow: {error}") from error
    return Network(mode="allow" if hosts else "none", hosts=hosts, models=names)


def _texts(value: object, field: str, what: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(each, str) and each for each in value):
        told = "an empty list" if value == [] else found(value)
        raise BadValue(f"{field} must be a list of {what}, found {told}")
    twice = next((each for each in value if value.count(each) > 1), None)
    if twice is not None:
        raise BadValue(f"{field} has '{twice}' twice; keep one")
    return tuple(value)


def parse_limits(value: object) -> dict[str, float | int | None]:
    """Decode what an attempt may use of its models; null takes a limit of the base away."""
    if not isinstance(value, dict) or not set(value) <= set(_LIMITS):
        odd = [key for key in value if key not in _LIMITS] if isinstance(value, dict) else []
        told = f"'{odd[0]}'" if odd else found(value)
        raise BadValue(f"must be a map of cost_usd, tokens and requests to numbers, found {told}")
    return {name: _limit(name, each) for name, each in value.items()}


def _limit(name: str, value: object) -> float | int | None:
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if name == "cost_usd":
        if isinstance(value, int | float) and is_number and 0 < value < math.inf:
            return float(value)
        raise BadValue(f"cost_usd must be a number greater than 0, or null, found {found(value)}")
    if isinstance(value, int) and is_number and value >= 1:
        return value
    raise BadValue(f"{name} must be a whole number from 1 on, or null, found {found(value)}")


def parse_exit_codes(value: object) -> dict[int, str | None]:
    """Decode which exit statuses of the agent blame somebody else; null takes one of the base away."""
    if not isinstance(value, dict):
        raise BadValue(
            f"must be a map from exit status to cause, such as {{75: provider}}, found {found(value)}"
        )
    # JSON knows no keys but texts.
    codes = {int(code) if isinstance(code, str) and code.isdecimal() else code: value[code] for code in value}
    for code, cause in codes.items():
        if isinstance(code, bool) or not isinstance(code, int) or not 1 <= code <= 255:
            raise BadValue(
                f"'{code}' can't be an exit status that blames somebody: a whole number from 1 to 255"
            )
        if cause is not None and cause not in BLAMABLE:
            names = ", ".join(BLAMABLE)
            raise BadValue(f"the cause of exit status {code} must be one of {names}, found {found(cause)}")
    return codes


def parse_fail_on_error(value: object) -> bool | float:
    """Decode when errors fail the run."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise BadValue(f"{_FAIL_ON_ERROR}, found {found(value)}")
    if value == 0:
        raise BadValue(f"{_FAIL_ON_ERROR}, found the number 0; to allow no error at all, write true")
    return float(value)


def parse_max_concurrency(value: object) -> int | Literal["auto"]:
    """Decode how many trials may run at a time."""
    if value == "auto":
        return "auto"
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadValue(f"must be auto or a whole number from 1 on, found {found(value)}")
    return value


def parse_schema(value: object) -> int:
    """Decode the version of the file's format."""
    if value != 1 or isinstance(value, bool):
        raise BadValue(f"this lab reads schema 1, found {found(value)}; a newer lab may read it")
    return 1


def parse_id(value: object) -> str:
    """Decode an id: text, never a number that YAML or JSON made of it."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise BadValue(f'ids are text, found the number {value}; quote it: "{value}"')
    if not isinstance(value, str) or not value.strip():
        raise BadValue(f"must be text that is not empty, found {_text_found(value)}")
    if len(value) > _LONGEST_ID or not value.isprintable():
        raise BadValue(f"must be one line of at most {_LONGEST_ID} characters, found {found(value)}")
    return value


def check_json(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Check that a value is JSON that is written the same everywhere."""
    _check_keys(value)
    if not canonical.has_only_finite_numbers(value):
        raise BadValue("holds a number that JSON can't hold (too large, or no number)")
    try:
        canonical.encode(value)
    except UnicodeEncodeError:
        raise BadValue(HALF_A_CHARACTER) from None
    return value


def parse_json_map(value: object) -> dict[str, Any]:
    """Decode a map whose content is the author's own."""
    if not isinstance(value, dict):
        raise BadValue(f"must be a map, found {found(value)}")
    checked: dict[str, Any] = check_json(value)
    return checked


def parse_files(value: object, place: str = "workspace") -> dict[str, str | FileSource]:
    """Decode files of a workspace, or of another place: path to content, or to `{source: path}`."""
    if not isinstance(value, dict):
        raise BadValue(f"must be a map from path to content, found {found(value)}")
    files = {check_inner_path(path, place): _file_content(path, each) for path, each in value.items()}
    if len(files) < len(value):
        raise BadValue("two of the paths name the same file; keep one")
    for path in files:
        for above in PurePosixPath(path).parents:
            if str(above) in files:
                raise BadValue(f"'{above}' is a file here, so '{path}' can't lie in it")
    return files


def parse_home_files(value: object) -> dict[str, str | FileSource]:
    """Decode files of an agent's home: path to content, or to `{source: path}`."""
    return parse_files(value, "home")


def check_inner_path(path: object, place: str = "workspace") -> str:
    """Check a path below the workspace, or below another place, and write it in one form."""
    if not isinstance(path, str) or not path.strip("/. ") or "\0" in path:
        raise BadValue(f"'{path}' can't be the path of a file in the {place}")
    if path.startswith("/") or ".." in PurePosixPath(path).parts:
        raise BadValue(f"'{path}' leaves the {place}; write a relative path without '..'")
    return str(PurePosixPath(path))


def _file_content(path: object, value: object) -> str | FileSource:
    if isinstance(value, str):
        return value
    source = value.get("source") if isinstance(value, dict) and set(value) == {"source"} else None
    if not isinstance(source, str) or not source:
        raise BadValue(
            f"'{path}' must be the file's content as text, or {{source: path}}, found {found(value)}"
        )
    return FileSource(source=source)


def parse_guest_path(value: object) -> str:
    """Decode a path inside an image."""
    if not isinstance(value, str):
        raise BadValue(f"must be a path inside the image, found {found(value)}")
    if not value.startswith("/") or ".." in PurePosixPath(value).parts:
        raise BadValue(f"must be a path inside the image that begins with / and has no '..', found '{value}'")
    return _no_nul(value)


def parse_tmpfs(value: object) -> dict[str, str]:
    """Decode folders in memory: a size for each, or mount options."""
    if not isinstance(value, dict):
        raise BadValue(f"must be a map of path to size, found {found(value)}")
    return {parse_guest_path(path): _tmpfs_options(path, each) for path, each in value.items()}


def _tmpfs_options(path: object, value: object) -> str:
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if _TMPFS_SIZE.match(text):
        return f"size={text}"
    if text and all(_TMPFS_OPTION.match(option) for option in text.split(",")):
        return text
    raise BadValue(
        f"{path} must have a size such as 64m, or mount options such as size=64m,exec; found {found(value)}"
    )


def _env_value(name: object, value: object) -> str | None:
    if value is None or isinstance(value, str):
        return None if value is None else _no_nul(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise BadValue(f"the value of {name} must be text, found {found(value)}; quote it")


def _check_keys(value: object) -> None:
    if isinstance(value, dict):
        for key, each in value.items():
            if not isinstance(key, str):
                raise BadValue(f"holds the key {key}, which is no text; quote it")
            _check_keys(each)
    elif isinstance(value, list):
        for each in value:
            _check_keys(each)


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise BadValue("holds a NUL character, which no command and no variable can hold")
    return text


def _text_found(value: object) -> str:
    return "empty text" if isinstance(value, str) and not value.strip() else found(value)


def _as(parse: Callable[[Any], object], text: str) -> tuple[PlainValidator, Shown]:
    return PlainValidator(parse), Shown(text)


Command: TypeAlias = Annotated[tuple[str, ...], *_as(parse_command, "list of texts, or text for `sh -c`")]
GuestPath: TypeAlias = Annotated[str, *_as(parse_guest_path, "path inside the image")]
Tmpfs: TypeAlias = Annotated[dict[str, str], *_as(parse_tmpfs, "map of path to size")]
Env: TypeAlias = Annotated[dict[str, str | None], *_as(parse_env, "map of name to text")]
NetworkChoice: TypeAlias = Annotated[Network, *_as(parse_network, "`none`, `full` or `{allow: [host, …]}`")]
AgentNetworkChoice: TypeAlias = Annotated[
    Network, *_as(parse_agent_network, "`none`, `full` or `{models: [name, …], allow: [host, …]}`")
]
Limits: TypeAlias = Annotated[
    dict[str, float | int | None], *_as(parse_limits, "`{cost_usd, tokens, requests}`")
]
ExitCodes: TypeAlias = Annotated[dict[int, str | None], *_as(parse_exit_codes, "map of exit status to cause")]
FailOnError: TypeAlias = Annotated[bool | float, *_as(parse_fail_on_error, "true, false or number")]
MaxConcurrency: TypeAlias = Annotated[
    int | Literal["auto"], *_as(parse_max_concurrency, "`auto` or whole number")
]
KindName: TypeAlias = Annotated[
    str, AfterValidator(check_kind), Shown("`docker`, `bubblewrap`, `process`, another kind")
]
SchemaVersion: TypeAlias = Annotated[int, *_as(parse_schema, "`1`")]
Id: TypeAlias = Annotated[str, *_as(parse_id, "text")]
Json: TypeAlias = Annotated[Any, AfterValidator(check_json), Shown("any JSON")]
JsonMap: TypeAlias = Annotated[dict[str, Any], *_as(parse_json_map, "map")]
Files: TypeAlias = Annotated[
    dict[str, str | FileSource], *_as(parse_files, "map of path to text or `{source: path}`")
]
HomeFiles: TypeAlias = Annotated[
    dict[str, str | FileSource], *_as(parse_home_files, "map of path to text or `{source: path}`")
]
