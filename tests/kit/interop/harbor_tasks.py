"""Harbor task folders for tests, small and of each kind."""

from pathlib import Path

BASE = "lab-test:base"
"""The image that tests build theirs from."""
TOML = """\
version = "1.0"

[metadata]
difficulty = "easy"
tags = ["files"]

[agent]
timeout_sec = 60.0

[verifier]
timeout_sec = 30.0

[environment]
build_timeout_sec = 120.0
cpus = 1
memory_mb = 256
storage_mb = 1024
network_mode = "no-network"
"""
TEST = """\
#!/bin/sh
reward=0
[ "$(cat answer.txt)" = 42 ] && reward=1
echo $reward >/logs/verifier/reward.txt
"""
SOLVE = "#!/bin/sh\necho 42 >answer.txt\n"


def write_task(  # what a task folder holds, one argument a file
    folder: Path,
    toml: str = TOML,
    *,
    test: str | None = TEST,
    solve: str | None = SOLVE,
    dockerfile: str | None = f"FROM {BASE}\nWORKDIR /app\n",
    instruction: str = "Write 42 into answer.txt.\n",
) -> Path:
    """Write a task folder."""
    files = {
        "task.toml": toml,
        "instruction.md": instruction,
        "environment/Dockerfile": dockerfile,
        "tests/test.sh": test,
        "solution/solve.sh": solve,
    }
    for name, text in files.items():
        if text is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return folder
