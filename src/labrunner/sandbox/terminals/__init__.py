"""Somebody at a terminal, inside a sandbox: both ends of the line."""
