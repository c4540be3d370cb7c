"""What an experiment asks of an agent by name becomes a plain command, or is refused with a sentence."""

import re
from pathlib import Path

import pytest

from labrunner.errors import InputError, InputErrors
from labrunner.experiment.agents.furnished import AgentsMissing
from labrunner.experiment.resolved import Agent
from labrunner.experiment.resolving.load import load
from tests.kit.depot.packages import write_named_experiment

OBEDIENT = """
about: does what it is told
dialects: [openai, anthropic]
command: [run-it, "--m=$dialect/$model", $settings, --, $prompt]
env: {ADDRESS: $model_url/x, PLAIN: "a b"}
files: {.run/it: "key=$model_key it's $$5"}
settings:
  effort: {args: [--effort, $value], values: [low, high]}
  turns: {env: {TURNS: $value}}
"""


def agent_of(folder: Path, fields: str, more: str = "") -> Agent:
    folder.mkdir(exist_ok=True)
    (folder / "it.yaml").write_text(OBEDIENT)
    write_named_experiment(folder, f"use: ./it.yaml, {fields}", more, kind="bubblewrap")
    return load(folder / "experiment.yaml").variants[0].agent


def test_settings_become_words_of_a_shell(tmp_path: Path) -> None:
    agent = agent_of(tmp_path, 'model: main/gpt-5, effort: high, turns: 3, args: ["it\'s", "$$x"]')
    shell, option, script = agent.command
    assert (shell, option) == ("sh", "-c")
    assert script.splitlines() == [
        "mkdir -p \"$$HOME\"/'.run' && printf %s 'key='\"$$LAB_MODEL_MAIN_KEY\"' it'\\''s $$5' "
        "> \"$$HOME\"/'.run/it' || exit 69",
        "export ADDRESS=\"$$LAB_MODEL_MAIN_URL\"'/x'",
        "export TURNS='3'",
        "exec 'run-it' '--m=openai/gpt-5' '--effort' 'high' 'it'\\''s' '$$x' '--' "
        '"$$(cat "$$AGENTLAB_PROMPT_PATH")"',
    ]
    assert agent.env == {"PLAIN": "a b"}
    assert agent.network.models == ("main",)
    assert agent.named is not None
    assert agent.named.settings == {"effort": "high", "turns": "3"}


@pytest.mark.parametrize("use", ["nobody", "./nobody.yaml"])
def test_an_agent_that_is_not_known_is_one_problem(tmp_path: Path, use: str) -> None:
    write_named_experiment(tmp_path, f"use: {use}")
    with pytest.raises(InputError, match=rf"agent.use: the agent '{use}' can't be used: there is no "):
        load(tmp_path / "experiment.yaml")


def test_bindings_choose_the_model(tmp_path: Path) -> None:
    agent = agent_of(tmp_path, "model: main/$size, effort: $how", "matrix: {size: [gpt-5], how: [low]}")
    assert "'--m=openai/gpt-5' '--effort' 'low'" in agent.command[2]


@pytest.mark.parametrize("name", ["prompt", "model_url", "model_key"])
def test_a_binding_does_not_take_the_place_of_what_the_file_means(tmp_path: Path, name: str) -> None:
    told = rf"agent.use: the file of the agent 'it' means something of its own by \${name}; call the binding"
    with pytest.raises(InputError, match=told):
        agent_of(tmp_path, "model: main/gpt-5", f"matrix: {{{name}: [short]}}")


def test_a_binding_has_any_name_that_the_file_does_not_use(tmp_path: Path) -> None:
    agent = agent_of(tmp_path, "model: main/$model, args: [$home]", "matrix: {home: [here], model: [gpt-5]}")
    assert "'--m=openai/gpt-5' 'here' '--'" in agent.command[2]


@pytest.mark.parametrize(
    ("task", "told"),
    [
        ("{id: a, input: {n: 1}}", "$prompt of the agent 'it' is the task's text, but task 'a' has none"),
        (
            f"{{id: a, input: {'x' * 131_072}}}",
            "an argument, of which Linux takes 131,064 bytes here, and that of",
        ),
    ],
    ids=["none", "long"],
)
def test_a_task_whose_text_can_not_be_given_is_refused(tmp_path: Path, task: str, told: str) -> None:
    agent_of(tmp_path, "model: main/gpt-5")
    file = tmp_path / "experiment.yaml"
    file.write_text(re.sub("(?m)^tasks: .*$", f"tasks: [{task}]", file.read_text()))
    with pytest.raises(InputError) as caught:
        load(file)
    assert "agent.use: $prompt" in str(caught.value)
    assert told in str(caught.value)


def test_a_long_text_may_become_a_file(tmp_path: Path) -> None:
    write_named_experiment(tmp_path, "use: ./it.yaml", kind="bubblewrap")
    (tmp_path / "it.yaml").write_text("command: [it]\nfiles: {task.md: $prompt}\n")
    file = tmp_path / "experiment.yaml"
    long = f"tasks: [{{id: a, input: {'x' * 131_072}}}]"
    file.write_text(re.sub("(?m)^tasks: .*$", long, file.read_text()))
    assert len(load(file).tasks[0].prompt or "") == 131_072


def test_what_an_experiment_writes_lies_over_what_the_file_brings(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("mine: $5")
    fields = "model: main/gpt-5, env: {ADDRESS: here, PLAIN: null}, files: {.run/it: {source: own.txt}}"
    agent = agent_of(tmp_path, fields)
    assert agent.env == {"ADDRESS": "here"}
    assert "printf %s 'mine: $$5'" in agent.command[2]


def test_a_built_in_name_is_a_word_of_its_own_whatever_it_will_hold(tmp_path: Path) -> None:
    fields = (
        'model: main/gpt-5, args: ["--in=$workspace/it\'s", "${workspace}$python"], files: {f: $task_path}'
    )
    command = agent_of(tmp_path, fields).command
    assert command[3:] == ("sh", "${workspace}", "${task_path}", "${python}")
    words = command[2].splitlines()[-1].split(" ", 3)[3]
    assert words.startswith("""'--in='"$$1"'/it'\\''s' "$$1""$$3" '--' """)
    assert 'printf %s "$$2" > "$$HOME"/\'f\'' in command[2]


def test_a_source_is_looked_for_beside_the_file_that_names_it(tmp_path: Path) -> None:
    brought = tmp_path / "brought"
    brought.mkdir()
    for folder in (tmp_path, brought):
        for name in ("one.txt", "two.txt"):
            (folder / name).write_text(f"{name} of {folder.name}")
    (brought / "it.yaml").write_text(
        "command: [it]\nfiles: {a: {source: one.txt}, b: {source: one.txt}}\n"
        "settings: {effort: {files: {c: {source: two.txt}}}}\n"
    )
    fields = "use: ./brought/it.yaml, effort: low, files: {b: {source: two.txt}, d: {source: one.txt}}"
    write_named_experiment(tmp_path, fields, "variants: [{id: v, agent: {files: {e: x}}}]", kind="bubblewrap")
    script = load(tmp_path / "experiment.yaml").variants[0].agent.command[2]
    own = tmp_path.name
    found = {line[-13]: line.split("'")[1] for line in script.splitlines() if line.startswith("printf")}
    assert found == {
        "a": "one.txt of brought",
        "b": f"two.txt of {own}",
        "c": "two.txt of brought",
        "d": f"one.txt of {own}",
        "e": "x",
    }


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            "timeout_s: 5",
            "agent.model: is missing; write ENTRY/MODEL, with an entry of models that speaks openai or",
        ),
        (
            "model: gpt-5",
            "agent.model: must be ENTRY/MODEL with an entry of models, found 'gpt-5'; nearest are",
        ),
        ("model: mian/gpt-5", "found 'mian/gpt-5'; nearest are main"),
        ("model: other/g", "agent.model: the agent 'it' speaks openai or anthropic, and models.other gemini"),
        ("model: main/m, effort: huge", "agent.effort: the agent 'it' knows low, high, found 'huge'"),
        (
            "model: main/m, system_prompt: x",
            "agent.system_prompt: the agent 'it' can't be told this; it can be told",
        ),
        ("model: main/m, turns: 0", "agent.turns: must be at least 1"),
        (
            "model: main/m, version: 1.2.3",
            "agent.version: the agent 'it' is not installed, so it has no versions",
        ),
        ("model: main/m, command: x", "agent.command: is what the agent 'it' brings; write args"),
        ("model: main/m, args: [$who]", "can't be started: unknown name '$who'; known here: $agent_dir"),
        ("model: main/m, network: none", "agent.network: must name the agent's model: {models: [main]}"),
        ("model: main/m, files: {../x: y}", "'../x' leaves the home"),
        ("model: main/m, files: {x: {source: no.txt}}", "no.txt' can't be read"),
    ],
)
def test_what_an_agent_can_not_be_told_is_refused(tmp_path: Path, fields: str, told: str) -> None:
    with pytest.raises((InputError, InputErrors)) as caught:
        agent_of(tmp_path, fields)
    assert told in str(caught.value)


def test_what_an_agent_s_file_blames_lies_over_what_is_the_setup_s_fault(tmp_path: Path) -> None:
    agent = agent_of(tmp_path, "model: main/m, error_exit_codes: {69: null, 4: provider}")
    assert agent.error_exit_codes == {4: "provider"}
    assert agent_of(tmp_path, "model: main/m").error_exit_codes == {69: "setup", 75: "provider"}


def test_settings_without_a_named_agent_are_refused(tmp_path: Path) -> None:
    write_named_experiment(tmp_path, "command: x, effort: high")
    with pytest.raises(InputError, match=r"agent.effort: takes `use`"):
        load(tmp_path / "experiment.yaml")


def test_a_file_that_is_only_a_command_can_not_be_told_anything(tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text("command: [x]\n")
    write_named_experiment(tmp_path, "use: ./plain.yaml, model: main/m")
    with pytest.raises(InputError, match="can't be told to the agent 'plain': its file is only a command"):
        load(tmp_path / "experiment.yaml")


def test_an_agent_that_is_not_installed_is_told_when_all_else_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    write_named_experiment(tmp_path, "use: codex, model: main/m, version: 0.1.2")
    with pytest.raises(AgentsMissing) as caught:
        load(tmp_path / "experiment.yaml")
    assert [release.label for release in caught.value.releases] == ["codex==0.1.2"]
    write_named_experiment(tmp_path, "use: codex, model: main/m, turns: 5")
    with pytest.raises(InputError, match="can't be told this"):
        load(tmp_path / "experiment.yaml")
