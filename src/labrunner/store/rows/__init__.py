"""The files of a run, each read and checked by its own rule: journal, rows, timings, lock, records."""
