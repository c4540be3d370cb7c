"""Where doors are on an address that is an attempt's or a run's own: known before there is one."""

from typing import Final

MODELS_PORT: Final = 9701
"""The door to models."""
HOSTS_PORT: Final = 9702
"""The door to allowed hosts."""
OWN_PORTS: Final = (MODELS_PORT, HOSTS_PORT)
ANY_PORTS: Final = (0, 0)
"""On an address that others use, too: whichever are free."""
