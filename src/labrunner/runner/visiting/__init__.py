"""Looking around in a sandbox that is thrown away: of a task, or of a trial."""
