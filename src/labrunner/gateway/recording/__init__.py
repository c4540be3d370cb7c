"""Calls on disk: rows and bodies beside an attempt."""
