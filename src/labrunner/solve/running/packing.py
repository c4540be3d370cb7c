"""A Python task packed for machines that have nothing of it: its code, what it reads, and how it is made.

What goes is what it takes to make the task again: its file, the modules that its digest covers, files of its
project that were read while it was made, and the script that stands for a model. Samples go with the
experiment.
"""

import asyncio
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from labrunner.errors import InputError
from labrunner.executor.cargo import Cargo
from labrunner.experiment.addresses import hide_credentials, reveal_address
from labrunner.experiment.options.layers import record_overrides
from labrunner.experiment.options.overrides import Overrides
from labrunner.experiment.options.table import find_option
from labrunner.experiment.resolved import Program
from labrunner.solve.models.asking import Model
from labrunner.solve.models.mock import find_script
from labrunner.solve.models.modelname import parse_model_name
from labrunner.solve.resolving.closure import MARKS, find_module_files, find_project
from labrunner.solve.resolving.rehearsal import rehearse
from labrunner.solve.resolving.task_resolution import LiveTask
from labrunner.solve.running.disclosure import refuse_secrets
from labrunner.solve.running.recipe import CARRIED, PROJECT, SCRIPT, Recipe, encode_recipe
from labrunner.solve.values.config import given
from labrunner.solve.values.task_folder import inside

CARRIER: Final = "labrunner.solve.running.faraway:make_faraway"
_READ_BY_CLIENTS: Final = re.compile(
    r".+_(API_KEY|BASE_URL|API_VERSION|ENDPOINT)|(AWS|AZURE|GOOGLE_CLOUD|OPENAI|GITHUB_COPILOT|SNOWFLAKE)_.+"
    r"|HF_TOKEN|VERCEL_OIDC_TOKEN|HEROKU_INFERENCE_(KEY|URL)"
)
"""Variables that providers' clients look for, by their names."""
_OF_ONE_MACHINE: Final = re.compile(
    r".+_(FILE|PATH|BUNDLE|DIR|HOME|PROFILE)|(IDENTITY|MSI)_ENDPOINT|AWS_(CONTAINER|EC2|EXECUTION|LAMBDA)_.+"
)
"""Those among them that say where something lies on a machine, or who the machine is: a node has its own."""


async def pack_task(
    program: Program, live: LiveTask, asked: Overrides, model: Model | None, hidden: Mapping[str, str]
) -> Cargo:
    """Pack a task that was made with these options, and with this model. Raises InputError.

    No file goes that holds one of the `hidden` values.
    """
    if program.file is None or not program.is_repeatable:
        raise InputError(
            f"task {program.task}",
            "can't be made again on other machines: its Task was made outside of an @task function, or with "
            "arguments that can't be recorded; make it in a function of a file, with @task above it",
        )
    file = Path(program.file.path)
    project, modules = find_project(file), find_module_files(program.modules)
    roots = tuple(dict.fromkeys(_find_roots(modules, project)))
    read = await rehearse(f"{file}@{program.task}", program.arguments, roots, project)
    files = {_place(path, project): path for path in (file, *modules.values(), *read, *_marks(project))}
    script, variables = _find_script(live), {**_find_variables(), **_find_address(live)}
    recipe = Recipe(
        project=str(project),
        file=_below(file, project),
        roots=tuple(_below(root, project) for root in roots),
        modules={name: _below(path, project) for name, path in modules.items()},
        overrides=record_overrides(_what_counts(live, asked, model)),
        environment=tuple(sorted(variables)),
        script=None if script is None else f"{SCRIPT}/{script.name}",
        program=program,
    )
    if script is not None:
        files[f"{SCRIPT}/{script.name}"] = script
    await asyncio.to_thread(refuse_secrets, files.values(), hidden)
    secrets = {f"{CARRIED}{name}": value for name, value in variables.items()}
    return Cargo(carrier=CARRIER, words=encode_recipe(recipe), files=files, secrets=secrets)


def _what_counts(live: LiveTask, asked: Overrides, model: Model | None) -> Overrides:
    """The options that the task's code is made with; its samples and its policy are known."""
    is_own = model is None and asked.model is None
    if live.model is not None and live.model.backend is not None and not is_own:
        raise InputError(
            "model",
            f"{live.model.name} answers by a function of this process, which other machines have not; "
            "give it to the task, in its file: Task(model=…)",
        )
    return Overrides(
        solver=asked.solver,
        solver_arguments=asked.solver_arguments,
        scorer=asked.scorer,
        limits=live.limits.given(),
        model=None if is_own or live.model is None else live.model.name,
        model_base_url=_get_recorded_address(live),
        generate={} if live.model is None else msgspec.to_builtins(given(live.model.config)),
    )


def _get_recorded_address(live: LiveTask) -> str | None:
    url = live.model.base_url if live.model is not None else None
    return None if url is None else hide_credentials(url)


def _find_variables() -> dict[str, str]:
    """Variables of this process that models' clients read, here as there."""
    read = filter(_READ_BY_CLIENTS.fullmatch, os.environ)
    return {name: os.environ[name] for name in read if not _OF_ONE_MACHINE.fullmatch(name)}


def _find_address(live: LiveTask) -> Mapping[str, str]:
    """The model's address where a password is in it: the recipe has it without."""
    if live.model is None or live.model.base_url is None:
        return {}
    known = reveal_address(live.model.base_url, live.model.provider)
    if known is None or known == _get_recorded_address(live):
        return {}
    return {find_option("model_base_url").variable: known}


def _find_script(live: LiveTask) -> Path | None:
    if live.model is None or live.model.backend is not None:
        return None
    name = parse_model_name(live.model.name)
    with inside(live.folder):
        return find_script(name.model) if name.is_mock else None


def _find_roots(modules: Mapping[str, Path], project: Path) -> Iterator[Path]:
    """Folders that modules were found in, in the order in which they are looked through."""
    found = set[Path]()
    for name, file in modules.items():
        words = name.split(".")
        depth = len(words) if file.name == "__init__.py" else len(words) - 1
        found.add(file.parents[depth])
    known = [Path(text).absolute() for text in sys.path]
    inside_of = [root for root in found if root == project or root.is_relative_to(project)]
    yield from sorted(inside_of, key=lambda root: (known.index(root) if root in known else len(known), root))


def _marks(project: Path) -> Iterator[Path]:
    """Files that tell where a project begins: its code may look for them."""
    yield from (project / name for name in MARKS if (project / name).is_file())


def _place(path: Path, project: Path) -> str:
    return f"{PROJECT}/{_below(path, project)}"


def _below(path: Path, project: Path) -> str:
    own = path if path.is_relative_to(project) else path.resolve()
    return own.relative_to(project).as_posix()
