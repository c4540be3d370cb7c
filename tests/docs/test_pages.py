"""Links, commands, words and names in the pages of this repository."""

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import get_args

import pytest
import yaml

from labrunner.cli import commands_page
from labrunner.cli.catalogue import COMMANDS
from labrunner.cli.examples import EXAMPLES
from labrunner.display.decision import DECISION
from labrunner.errors import ExitCode
from labrunner.experiment.authoring.authored import ExperimentFile
from labrunner.experiment.authoring.experiment_page import SECTIONS
from labrunner.experiment.authoring.part import Part
from labrunner.experiment.sources.importers import IMPORTERS
from labrunner.interop.registry import EXPORTERS
from labrunner.policy.causes import CONSEQUENCES
from labrunner.records.completion import EndedBy
from labrunner.records.run import RunStatus
from labrunner.records.schema import RECORDS
from tests.kit.docs import blocks
from tests.kit.docs.pages import ROOT, fences, name, pages, tracked

LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
TEXT_FILES = {"", ".md", ".py", ".sh", ".toml", ".yaml", ".yml", ".json", ".jsonl", ".txt", ".cfg", ".csv"}
FOREIGN = {
    "the address of a package registry": r"(pypi|npmjs)\.(org|com)|pythonhosted|index-url|artifactory",
    "a path of somebody's machine": r"/work/\w+|/Users/\w+/|/root/\.\w+",
}
SELF = ROOT / "tests" / "docs" / "test_pages.py"


def read(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def without_fences(text: str) -> str:
    for fence in fences(text):
        text = text.replace(fence.text, "")
    return text


def anchors(page: Path) -> set[str]:
    """Names that a heading can be reached by, as GitHub makes them."""
    titles = HEADING.findall(without_fences(page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(without_fences(page.read_text("utf-8"))):
        found = (page.parent / target).resolve() if target else page
        assert found.exists(), f"{name(page)} links to {target}, which is not there"
        if anchor and found.suffix == ".md":
            assert anchor[1:] in anchors(found), f"{name(page)} links to {target}{anchor}: no such heading"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_what_programs_write_into_a_page_is_current(page: Path) -> None:
    assert page.read_text("utf-8") == blocks.renew(page), "run scripts/docs"


@pytest.mark.parametrize("page", pages(), ids=name)
def test_commands_and_options_that_a_page_names_exist(page: Path) -> None:
    names = {*COMMANDS, *(alias for command in COMMANDS.values() for alias in command.aliases), "COMMAND"}
    for word in re.findall(r"(?:^|`|\$ )lab ([a-z][\w-]*)", page.read_text("utf-8"), re.MULTILINE):
        assert word in names, f"{name(page)} names `lab {word}`"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_stands_in_the_reference(command: str) -> None:
    assert re.search(rf"^## lab {command}\b", read("docs/reference/cli.md"), re.MULTILINE)


@pytest.mark.parametrize("command", EXAMPLES)
def test_examples_use_only_options_that_their_command_has(command: str) -> None:
    sections = read("docs/reference/cli.md").split("\n## ")
    own, shared = (
        next(each for each in sections if each.startswith(f"{name}\n")) for name in (command, "lab run")
    )
    known = own + shared if "those of [lab run]" in own else own
    for example in EXAMPLES[command]:
        assert example.startswith(f"{command} ") or example == command
        for option in re.findall(r" (--?[a-zA-Z][\w-]*)", example):
            assert re.search(rf"^\| `[^`]*(?<![\w-]){option}(?![\w-])", known, re.MULTILINE), option


@pytest.mark.parametrize("command", COMMANDS)
def test_every_long_option_can_be_set_as_a_variable(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, part, context in commands_page._parts(command, COMMANDS[command]):
        for option in [each for each in part.params if each.opts[0].startswith("--")]:
            variable = f"LAB_{option.opts[0][2:].replace('-', '_').upper()}"
            assert option.resolve_envvar_value(context) is None
            monkeypatch.setenv(variable, "given")
            assert option.resolve_envvar_value(context) == "given", f"{path}: {variable}"
            monkeypatch.delenv(variable)


@pytest.mark.parametrize("model", SECTIONS, ids=lambda model: model.__name__)
def test_every_field_of_an_experiment_stands_in_the_reference(model: type[Part]) -> None:
    section = read("docs/reference/experiment.md").split(f"\n## {SECTIONS[model]}\n")[1].split("\n## ")[0]
    for field, facts in model.model_fields.items():
        assert f"| `{facts.alias or field}` |" in section


@pytest.mark.parametrize("cause", CONSEQUENCES)
def test_every_cause_is_explained(cause: str) -> None:
    assert re.search(rf"^\| `{cause}` \|", read("docs/errors.md"), re.MULTILINE)


@pytest.mark.parametrize("cause", [cause for cause, follows in CONSEQUENCES.items() if follows.watched])
@pytest.mark.parametrize(
    ("page", "begins", "ends"),
    [
        ("docs/errors.md", "## The breaker", "\n## "),
        ("docs/design/breaker.md", "It watches the causes", "\n"),
        ("docs/reference/experiment.md", "| `after` |", "\n"),
    ],
)
def test_a_cause_that_the_breaker_watches_is_named_where_it_is_described(
    page: str, begins: str, ends: str, cause: str
) -> None:
    assert f"`{cause}`" in read(page).split(begins)[1].split(ends)[0]


@pytest.mark.parametrize(
    ("command", "names"),
    [("export", EXPORTERS.built_in), ("import", IMPORTERS.built_in)],
    ids=["export", "import"],
)
def test_the_help_of_a_command_lists_what_it_knows(command: str, names: Iterable[str]) -> None:
    assert all(re.search(rf"\b{re.escape(name)}\b", COMMANDS[command].does) for name in names)


@pytest.mark.parametrize("code", ExitCode)
def test_every_exit_code_is_explained(code: ExitCode) -> None:
    section = read("docs/errors.md").split("\n## Exit codes\n")[1].split("\n## ")[0]
    assert f"| {int(code)} |" in section


@pytest.mark.parametrize("record", RECORDS)
def test_every_record_is_described_and_its_schema_linked(record: str) -> None:
    page = read("docs/reference/records.md")
    assert f"\n### {record}\n" in page
    assert f"schemas/{record}.json)" in page


def test_the_decision_line_stands_where_people_look() -> None:
    for page in ("README.md", "docs/crashes.md", "docs/reference/cli.md"):
        assert DECISION in " ".join(read(page).split()), page


def test_the_readme_is_short_and_its_two_commands_exist() -> None:
    text = read("README.md")
    assert len(text.splitlines()) <= 120
    targets = re.findall(r"^(\w+):", read("Makefile"), re.MULTILINE)
    for target in re.findall(r"make (\w+)", text):
        assert target in targets


@pytest.mark.parametrize("page", [page for page in pages() if page.parent.name == "docs"], ids=name)
def test_every_page_is_reachable_from_the_index(page: Path) -> None:
    linked = {target for target, _ in LINK.findall(read("docs/index.md"))}
    assert page.name == "index.md" or page.name in linked


@pytest.mark.parametrize("what", FOREIGN)
def test_no_file_holds_what_belongs_to_one_machine(what: str) -> None:
    pattern = re.compile(FOREIGN[what])
    for path in tracked():
        if path.suffix in TEXT_FILES and path != SELF:
            found = pattern.search(path.read_text("utf-8", errors="replace"))
            assert found is None, f"{name(path)} holds {what}: {found}"


def contract_words() -> list[str]:
    """Variables, limits, verdicts and exit statuses that the program knows."""
    phases = read("src/labrunner/trial/phases.py")
    wrapper = read("src/labrunner/sandbox/guest/wrapper.sh").split("# Exit: ")[1].split("\n\n")[0]
    return [
        *(f"`{word}`" for word in sorted(set(re.findall(r'"(AGENTLAB_\w+)"', phases)))),
        *(f"`{word}`" for word in get_args(EndedBy)),
        *(f"| {number} |" for number in re.findall(r"\b\d+\b", wrapper)),
    ]


@pytest.mark.parametrize("word", contract_words())
def test_the_contract_explains_what_agents_and_graders_meet(word: str) -> None:
    assert word in read("docs/runtime-contract.md")


@pytest.mark.parametrize("path", [path for path in tracked() if path.match("docs/*.md")], ids=name)
def test_yaml_of_pages_loads(path: Path) -> None:
    for fence in fences(path.read_text("utf-8")):
        if fence.language == "yaml":
            fields = yaml.safe_load(fence.text)
            assert set(fields) <= {
                facts.alias or field for field, facts in ExperimentFile.model_fields.items()
            }


def test_contributors_read_of_every_room_in_order() -> None:
    contract = tomllib.loads(read("pyproject.toml"))["tool"]["importlinter"]["contracts"][0]
    layers = [layer.split(" : ") for layer in reversed(contract["layers"])]
    modules = [module.removeprefix("labrunner.") for layer in layers for module in layer]
    alone = {"errors", "registry"}
    rooms = [module for module in modules if (ROOT / "src/labrunner" / module).is_dir() or module in alone]
    section = read("CONTRIBUTING.md").partition("\n## Rooms\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == rooms


@pytest.mark.parametrize("word", [*get_args(RunStatus), "crashed", "graded", "failed", "unreadable"])
def test_every_state_and_outcome_is_in_the_glossary(word: str) -> None:
    assert re.search(rf"^\| .*\b{word}\b.* \|", read("docs/concepts.md"), re.MULTILINE)


def test_files_that_contributors_read_of_are_there_and_hold_what_is_said() -> None:
    text = read("CONTRIBUTING.md")
    places = (ROOT, ROOT / "src/labrunner")
    named = re.findall(r"(?<![\w/}])((?:[a-z_]+/)+[\w-]+\.(?:py|md))(?![\w/])", text)
    assert len(named) > 60
    assert [name for name in named if not any((place / name).is_file() for place in places)] == []
    for file, word in re.findall(r"`([\w/]+\.py)` \(`(\w+)`\)", text):
        source = next(place / file for place in places if (place / file).is_file()).read_text("utf-8")
        assert re.search(rf"^\s*(?:async def|def|class) {word}\b|^{word}\b", source, re.MULTILINE), (
            f"{file}: {word}"
        )
