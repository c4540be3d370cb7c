"""Agents that are known by name: data only, one YAML file each."""
