"""The table of options, and what is written from it."""

from pathlib import Path

import pytest

from labrunner.cli.carrying.target import Call
from labrunner.experiment.options.option import CARRYING, FUNCTIONS, OfCommand, OfRun
from labrunner.experiment.options.table import OPTIONS, find_option
from labrunner.runner.start import RunOptions
from tests.kit.experiment.stubs import STUBS


def test_names_flags_and_variables_are_each_one_option_s() -> None:
    flags = [flag for option in OPTIONS for flag in option.flags]
    variables = [option.variable for option in OPTIONS if option.flags]
    names = [option.name for option in OPTIONS]
    assert all(len(set(each)) == len(each) for each in (flags, variables, names))


def test_every_option_is_for_a_known_command_or_function() -> None:
    known = {*CARRYING, "continue", "regrade"}
    assert all(set(option.commands) <= known and set(option.functions) <= {*FUNCTIONS} for option in OPTIONS)


def test_what_says_how_a_run_is_carried_out_is_a_field_of_its_options() -> None:
    fields = {option.goal.field for option in OPTIONS if isinstance(option.goal, OfRun)}
    assert {"grace_s", "runs_dir"} <= fields <= set(RunOptions.__dataclass_fields__)


def test_what_is_for_run_or_set_alone_is_a_field_of_what_they_are_asked() -> None:
    fields = {
        option.goal.field
        for option in OPTIONS
        if isinstance(option.goal, OfCommand) and {"run", "set"} & {*option.commands}
    }
    assert {"as_json", "attempts"} <= fields <= {*Call.__dataclass_fields__, "display"}


def test_a_variable_is_named_after_the_flag_that_people_write() -> None:
    assert find_option("epochs").variable == "LAB_REPLICATIONS"
    assert find_option("task_args").variable == "LAB_TASK_ARGS"


@pytest.mark.parametrize("path", STUBS, ids=lambda path: path.name)
def test_types_for_checkers_are_those_of_the_table(path: Path) -> None:
    assert path.read_text("utf-8") == STUBS[path](), "python -m tests.kit.experiment.stubs writes it anew"
