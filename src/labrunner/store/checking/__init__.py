"""Recomputing what a run claims, and marks on trials that are not to be used."""
