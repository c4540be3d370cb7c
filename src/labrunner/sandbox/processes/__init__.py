"""Processes on this host: the warden that starts and ends them, and what holds them to their limits."""
