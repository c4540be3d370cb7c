"""labrunner: agents on benchmark tasks, graded in their own sandbox, committed durably in order."""

from typing import Final

__version__: Final = "0.1.0"
