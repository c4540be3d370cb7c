"""Job files of Harbor as experiments."""

from pathlib import Path

import pytest

from labrunner.errors import InputError, InputErrors
from labrunner.experiment.resolving.load import load
from labrunner.experiment.sources.importers import read_import
from labrunner.interop.importers.harbor_job import MAPPED, REFUSED, SAYS_NOTHING, import_harbor_job
from tests.kit.cli.calling import lab
from tests.kit.interop.harbor_tasks import write_task

JOB = """\
job_name: nightly
jobs_dir: jobs
n_attempts: 3
n_concurrent_trials: 2
timeout_multiplier: 2.0
verifier_timeout_multiplier: 0.5
retry: {max_retries: 1}
environment: {type: docker, delete: true, mounts: []}
agents:
  - name: oracle
  - name: nop
datasets:
  - path: set
    exclude_task_names: ["skip*"]
"""


def write_job(folder: Path, text: str = JOB) -> Path:
    for name in ("a", "b", "skipped"):
        write_task(folder / "set" / name)
    (folder / "job.yaml").write_text(text)
    return folder / "job.yaml"


def test_a_job_is_an_experiment_with_its_agents_attempts_and_times(tmp_path: Path) -> None:
    experiment = load(Path(f"harbor-job:{write_job(tmp_path)}"))
    assert (experiment.name, experiment.replications) == ("nightly", 3)
    assert [(variant.id, variant.agent.runs) for variant in experiment.variants] == [
        ("oracle", "solution"),
        ("nop", "nothing"),
    ]
    assert [task.id for task in experiment.tasks] == ["a", "b"]
    task = experiment.tasks[0]
    assert (task.timeout_s, task.grader.timeout_s, task.build_timeout_s) == (120.0, 15.0, 240.0)
    assert (experiment.policy.max_concurrency, experiment.policy.retry_on_error) == (2, 1)


def test_an_agent_with_a_model_is_a_variant_that_reaches_it(tmp_path: Path) -> None:
    job = "agents: [{name: claude-code, model_name: anthropic/claude-x}]\ntasks: [{path: set/a}]\n"
    fields = import_harbor_job(write_job(tmp_path, job)).fields
    agent = {"use": "claude-code", "model": "anthropic/claude-x"}
    assert fields["variants"] == [{"id": "claude-code-anthropic-claude-x", "agent": agent}]
    assert fields["models"] == {"anthropic": {"dialect": "anthropic", "key": "ANTHROPIC_API_KEY"}}


def test_a_variable_of_an_agent_that_comes_from_this_machine_is_a_secret(tmp_path: Path) -> None:
    job = "agents: [{name: codex, env: {KEY: '${KEY}', PRICE: '5$'}}]\ntasks: [{path: set/a}]\n"
    [variant] = import_harbor_job(write_job(tmp_path, job)).fields["variants"]
    assert variant["agent"] == {"use": "codex", "env": {"PRICE": "5$$"}, "secrets": ["KEY"]}


def test_what_a_job_says_of_nothing_is_taken_as_read(tmp_path: Path) -> None:
    job = "install_only: false\nagent_setup_timeout_multiplier: 1.0\nplugins: []\ntasks: [{path: set/a}]\n"
    assert [task["id"] for task in import_harbor_job(write_job(tmp_path, job)).fields["tasks"]] == ["a"]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("colour: red\n", "colour"),
        ("plugins: [x]\n", "plugins"),
        ("environment: {mounts: [{type: bind}]}\n", "environment.mounts"),
        ("environment: {type: modal}\n", "environment.type"),
        ("verifier: {disable: true}\n", "verifier.disable"),
        ("metrics: [{type: sum}]\n", "metrics"),
        ("install_only: true\n", "install_only"),
        ("environment: {delete: 1}\n", "environment.delete"),
        ("retry: {max_retries: false}\n", "retry.max_retries"),
        ("agents: [{name: codex, env: {KEY: '${OTHER}'}}]\n", "agents.0.env.KEY"),
        ("retry: {include_exceptions: [X]}\n", "retry.include_exceptions"),
        ("timeout_multiplier: 0\n", "timeout_multiplier"),
        ("agents: [{import_path: 'm:Agent'}]\n", "agents.0.import_path"),
        ("agents: [{name: codex, kwargs: {x: 1}}]\n", "agents.0.kwargs"),
        ("agents: [{name: codex, model_name: some/model}]\n", "agents.0.model_name"),
        ("datasets: [{name: terminal-bench, path: set}]\n", "datasets.0.name"),
        ("datasets: [{path: nowhere}]\n", "datasets.0.path"),
    ],
)
def test_what_cant_be_had_of_a_job_is_refused_by_file_and_field(
    text: str, field: str, tmp_path: Path
) -> None:
    path = write_job(tmp_path, text)
    with pytest.raises((InputError, InputErrors)) as caught:
        import_harbor_job(path)
    assert str(caught.value).startswith(f"{path}: {field}: ")


def test_several_problems_of_a_job_are_told_as_its_own(tmp_path: Path) -> None:
    path = write_job(tmp_path, "colour: red\nn_attempts: two\n")
    with pytest.raises(InputErrors) as caught:
        read_import("harbor-job", path)
    told = str(caught.value).splitlines()
    assert [line.removeprefix(f"{path}: ").partition(":")[0] for line in told] == ["colour", "n_attempts"]


# Of `JobConfig` in harbor 0.25.0; `plugins` and `orchestrator` are of other versions.
SCHEMA = (
    "agent_setup_timeout_multiplier agent_timeout_multiplier agents artifacts datasets debug "
    "environment environment_build_timeout_multiplier extra_instruction_paths extra_instructions "
    "install_only job_name jobs_dir metrics n_attempts n_concurrent_trials quiet retry "
    "skip_credential_checks source_jobs tasks timeout_multiplier user_agent verifier "
    "verifier_timeout_multiplier plugins orchestrator"
)


def test_every_field_of_a_jobs_schema_is_mapped_or_refused_or_means_nothing_here() -> None:
    assert sorted(SCHEMA.split()) == sorted([*MAPPED, *REFUSED, *SAYS_NOTHING, "environment", "verifier"])


# A job as Harbor itself writes it down (`config.json` of a job's folder), where nobody said more than this.
LINES = """\
{"job_name": "x", "jobs_dir": "jobs", "n_attempts": 1, "install_only": false, "skip_credential_checks":
false, "timeout_multiplier": 1.0, "agent_timeout_multiplier": null, "agent_setup_timeout_multiplier":
null, "debug": false, "n_concurrent_trials": 4, "quiet": false, "retry": {"max_retries": 0,
"include_exceptions": null, "exclude_exceptions": ["ApiUsageLimitError",
"UnsupportedModelParametersError", "AgentAuthenticationError", "RewardFileEmptyError",
"RewardFileNotFoundError", "ModelNotFoundError", "AgentSafetyRefusalError", "VerifierOutputParseError",
"AgentTimeoutError", "VerifierTimeoutError"], "wait_multiplier": 1.0, "min_wait_sec": 1.0,
"max_wait_sec": 60.0}, "environment": {"type": "docker", "import_path": null, "force_build": false,
"delete": true, "stream": false, "cpu_enforcement_policy": "auto", "memory_enforcement_policy": "auto",
"override_cpus": null, "mounts": null, "extra_docker_compose": [], "kwargs": {}, "extra_allowed_hosts":
[]}, "verifier": {"override_timeout_sec": null, "max_timeout_sec": null, "disable": false}, "metrics":
[], "agents": [{"name": "oracle", "import_path": null, "model_name": null, "skip_model_parsing": false,
"n_concurrent": null, "skills": [], "resume_trajectory": false, "kwargs": {}, "mcp_servers": []}],
"user_agent": null, "datasets": [], "tasks": [{"path": "set/a", "git_url": null, "overwrite": false,
"source": null}], "artifacts": [], "extra_instruction_paths": [], "extra_instructions": [],
"source_jobs": []}
"""
WRITTEN = " ".join(LINES.split())


def test_a_job_as_harbor_writes_it_down_is_read(tmp_path: Path) -> None:
    write_job(tmp_path)
    (tmp_path / "job.json").write_text(WRITTEN)
    experiment = load(Path(f"harbor-job:{tmp_path}/job.json"))
    assert [task.id for task in experiment.tasks] == ["a"]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('"mounts": null', '"mounts": ["/x:/y"]', "environment.mounts"),
        ('"AgentTimeoutError", ', "", "retry.exclude_exceptions"),
        ('"git_url": null', '"git_url": "https://x"', "tasks.0.git_url"),
        ('"skills": []', '"skills": ["/s"]', "agents.0.skills"),
        ('"mcp_servers": []', '"mcp_servers": [{"name": "x"}]', "agents.0.mcp_servers"),
        ('"n_concurrent": null', '"n_concurrent": 2', "agents.0.n_concurrent"),
        ('"override_cpus": null', '"override_cpus": 2', "environment.override_cpus"),
        ('"disable": false', '"disable": true', "verifier.disable"),
        ('"type": "docker"', '"type": "modal"', "environment.type"),
        ('"user_agent": null', '"user_agent": {"name": "x"}', "user_agent"),
    ],
)
def test_what_a_job_says_beyond_that_is_refused_by_file_and_field(
    old: str, new: str, field: str, tmp_path: Path
) -> None:
    write_job(tmp_path)
    assert old in WRITTEN
    (tmp_path / "job.json").write_text(WRITTEN.replace(old, new))
    with pytest.raises(InputError) as caught:
        import_harbor_job(tmp_path / "job.json")
    assert caught.value.where == f"{tmp_path}/job.json: {field}"


def test_what_is_told_next_of_an_imported_job_is_a_command_that_works(tmp_path: Path) -> None:
    write_job(tmp_path)
    told = lab("import", "harbor-job", "job.yaml", "-o", "mine", cwd=tmp_path)
    assert told.code == 0, told.err
    assert told.out.splitlines()[-1] == "next: lab run mine"
    assert lab("plan", "mine", cwd=tmp_path).code == 0
    (tmp_path / "set" / "a" / "solution" / "solve.sh").unlink()
    told = lab("import", "harbor", "set", "-o", "other", cwd=tmp_path)
    assert told.out.splitlines()[-1] == "next: lab run other --agent noop"
    assert lab("plan", "other", "--agent", "noop", cwd=tmp_path).code == 0
