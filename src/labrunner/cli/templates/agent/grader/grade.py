"""The grader: compares the file that the agent left with the hidden answer, and writes a verdict."""

import json
import os
import pathlib

target = json.loads(pathlib.Path(os.environ["AGENTLAB_TARGET_PATH"]).read_text())
answer = pathlib.Path(os.environ["AGENTLAB_WORKSPACE"], "answer.txt")
found = answer.read_text().strip() if answer.is_file() else None

verdict = "missing" if found is None else "pass" if found == target else "fail"
pathlib.Path(os.environ["AGENTLAB_BENCHMARK_SCORE_PATH"]).write_text(json.dumps({"verdict": verdict}))
if found is not None:
    prediction = {"kind": "text", "value": found}
    pathlib.Path(os.environ["AGENTLAB_BENCHMARK_PREDICTION_PATH"]).write_text(json.dumps(prediction))
