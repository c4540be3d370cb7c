"""Carrying out attempts of Python tasks."""
