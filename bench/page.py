"""Fills the table of docs/performance.md."""


def fill() -> None:
    raise NotImplementedError
