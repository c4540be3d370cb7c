"""How far an image that is being pulled has come, told now and then. Pure: it is given the time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from labrunner.sandbox.docker.engine.replies import PullNews

TELL_EVERY_S: Final = 5.0
MB: Final = 1e6


@dataclass(slots=True, kw_only=True)
class PullProgress:
    """The layers of an image on their way."""

    told_at: float
    """When something was told last."""
    sizes: dict[str, int] = field(default_factory=dict)
    come: dict[str, int] = field(default_factory=dict)

    def hear(self, news: PullNews, now: float) -> Iterator[str]:
        """Take in what the engine tells; what people should know of it."""
        if not news.layer and news.status.startswith(("Digest", "Status")):
            self.told_at = now
            yield news.status
        if news.total:
            self.sizes[news.layer] = news.total
            self.come[news.layer] = news.current
        elif news.layer in self.sizes:  # no longer downloading
            self.come[news.layer] = self.sizes[news.layer]
        if self.sizes and now - self.told_at >= TELL_EVERY_S:
            self.told_at = now
            yield f"{sum(self.come.values()) / MB:.1f} of {sum(self.sizes.values()) / MB:.1f} MB"
