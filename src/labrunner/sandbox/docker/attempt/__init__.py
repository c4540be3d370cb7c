"""One attempt in one container: its stages, the agent's side, the grader's side, its removal."""
