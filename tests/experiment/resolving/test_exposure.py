import pytest

from tests.kit.experiment.authoring import AGENT, Bench

ROWS = '{"id": "a", "input": "x", "target": "secret"}\n'
HIDDEN = "the file with the tasks' hidden answers"


def experiment(*, agent: str = "agent", tasks: str = "tasks/t.jsonl", grader: str = "grader") -> str:
    return (
        f"name: x\ntasks: {tasks}\nagent: {{command: x, dir: {agent}}}\n"
        f"grader: {{command: x, dir: {grader}}}\n"
    )


@pytest.fixture
def laid(bench: Bench) -> Bench:
    return bench.write(
        agent__run_sh="x",
        agent__grader__grade_sh="x",
        agent__t_jsonl=ROWS,
        grader__grade_sh="x",
        tasks__t_jsonl=ROWS,
        open__t_jsonl='{"id": "a", "input": "x"}\n',
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (experiment(grader="agent/grader"), "the grader's folder"),
        (experiment(grader="agent"), "the grader's folder"),
        (experiment(tasks="agent/t.jsonl"), HIDDEN),
        (experiment(agent="."), HIDDEN),
        (experiment(agent=".", tasks="[{id: a, input: x, target: 1}]"), HIDDEN),
        (experiment(agent="tasks/../agent", grader="agent/./grader"), "the grader's folder"),
    ],
)
def test_an_agent_that_could_read_what_is_hidden_is_refused(laid: Bench, text: str, what: str) -> None:
    said = laid.complaint(text)
    assert f"experiment.yaml: agent.dir of variant 'baseline' holds {what} ('{laid.root}" in said
    assert said.endswith("so the agent could read it; move one of them")


def test_a_link_into_the_agents_folder_hides_nothing(laid: Bench) -> None:
    (laid.root / "linked").symlink_to("agent/grader")
    assert "holds the grader's folder" in laid.complaint(experiment(grader="linked"))


def test_a_workspace_with_the_grader_in_it_is_refused(laid: Bench) -> None:
    text = f"name: x\ntasks: [{{id: a, input: x, workspace: agent}}]\n{AGENT}"
    said = laid.complaint(text + "grader: {command: x, dir: agent/grader}\n")
    assert "the workspace of task 'a' holds the grader's folder" in said


def test_folders_beside_each_other_and_tasks_without_answers_are_fine(laid: Bench) -> None:
    assert laid.load(experiment()).tasks[0].has_target
    laid.write(agent__t_jsonl='{"id": "a", "input": "x"}\n')
    assert laid.load(experiment(tasks="agent/t.jsonl")).tasks[0].id == "a"
