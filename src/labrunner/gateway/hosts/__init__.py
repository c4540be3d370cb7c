"""The door to hosts: an HTTP proxy that reaches what `network.allow` names, and nothing else."""
