"""Preflight of containers: one small attempt, and what it has proven before."""
