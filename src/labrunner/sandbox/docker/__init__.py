"""Containers as sandboxes: one container an attempt, started once, that goes on when its runner is gone."""
