"""Runs in formats that other tools read, one file each."""
