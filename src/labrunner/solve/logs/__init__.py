"""Runs as Python users read them."""
