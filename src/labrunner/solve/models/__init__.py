"""Models and what a trial's code reaches: providers, mocks, tool calls, the sandbox."""
