"""One attempt: prepare, agent, barrier, grader, collect, classify. Knows nothing of retries or commits."""
