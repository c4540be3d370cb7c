"""A run on disk: layout, lock, journal, buffer, committer, opening and reading."""
