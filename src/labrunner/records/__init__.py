"""Words: what is on disk and on the wire. No decisions, no I/O beyond reading its own schemas."""
