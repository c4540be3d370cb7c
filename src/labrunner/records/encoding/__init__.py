"""Canonical bytes, and names."""
