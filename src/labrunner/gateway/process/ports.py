"""Where doors are in a network namespace of their own: known before there is one."""

from typing import Final

MODELS_PORT: Final = 9701
"""The door to models."""
HOSTS_PORT: Final = 9702
"""The door to allowed hosts."""
