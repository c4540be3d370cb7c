"""Task folders of terminal-bench before Harbor, for tests."""

from pathlib import Path

YAML = """\
instruction: Write 42 into answer.txt.
difficulty: easy
category: files
tags: [files]
parser_name: pytest
max_agent_timeout_sec: 60
max_test_timeout_sec: 30
"""
COMPOSE = """\
services:
  client:
    build: {dockerfile: Dockerfile}
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: [sh, -c, sleep infinity]
    network_mode: none
    environment:
      - TEST_DIR=${T_BENCH_TEST_DIR}
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
    deploy: {resources: {limits: {cpus: "1", memory: 256m}}}
"""
RUN_TESTS = """\
#!/bin/bash
word=FAILED why=' - AssertionError: "no"'
[ "$(cat answer.txt)" = 42 ] && word=PASSED why=''
echo '==================== short test summary info ===================='
echo "PASSED $TEST_DIR/test_outputs.py::test_there"
echo "$word $TEST_DIR/test_outputs.py::test_answer[\\"a\\"]$why"
echo 'SKIPPED [1] test_outputs.py:3: later'
[ $word = PASSED ]
"""
SOLUTION = "#!/bin/bash\necho 42 >answer.txt\n"


def write_classic(folder: Path, image: str = "base", *, yaml: str = YAML, compose: str = COMPOSE) -> Path:
    """Write a task folder."""
    files = {
        "task.yaml": yaml,
        "docker-compose.yaml": compose,
        "Dockerfile": f"FROM {image}\nWORKDIR /app\n",
        "run-tests.sh": RUN_TESTS,
        "solution.sh": SOLUTION,
        "tests/test_outputs.py": "def test_there(): ...\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
