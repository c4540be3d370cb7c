"""Taking out of a request what the provider would carry out itself: a way around the sandbox.

Rules: only what is known to be carried out by the agent stays; a tool of an unknown kind is taken out
under its own name. In place of a block a text says so, because a message without content is refused by
providers.
"""

from collections.abc import Callable, Collection
from typing import Final

from labrunner.gateway.dialects.digging import JsonMap

STAND_IN: Final = "[A file that the provider would have fetched was taken out: this sandbox has no network.]"

ToolJudge = Callable[[JsonMap], str | None]
"""The word for a tool that runs at the provider; None for one of the agent's own."""
BlockJudge = Callable[[JsonMap], str | None]
"""The word for a block of content that the provider would fetch; None for one that is all there."""


class Sieve:
    """Goes over one request, and keeps what it took out."""

    def __init__(self, granted: Collection[str]) -> None:
        """Take the words that the experiment grants."""
        self._granted = frozenset(granted)
        self._taken: list[str] = []

    @property
    def taken_out(self) -> tuple[str, ...]:
        """What was taken out, in order."""
        return tuple(self._taken)

    def takes(self, word: str | None) -> bool:
        """Whether this has to go; noted, if so."""
        if word is None or word in self._granted:
            return False
        self._taken.append(word)
        return True

    def sift_key(self, body: JsonMap, key: str, word: str) -> None:
        """Take out a field."""
        if body.get(key) and self.takes(word):
            del body[key]

    def sift_tools(self, holder: JsonMap, judge: ToolJudge, *, key: str = "tools") -> None:
        """Take out tools; with the last one goes what may only stand beside tools."""
        tools = holder.get(key)
        if not isinstance(tools, list):
            return
        kept = [tool for tool in tools if isinstance(tool, dict) and not self.takes(judge(tool))]
        if len(kept) == len(tools):
            return
        holder[key] = kept
        choice = holder.get("tool_choice")
        if isinstance(choice, dict) and judge(choice) not in {None, *self._granted}:
            del holder["tool_choice"]
        if not kept:
            for name in (key, "tool_choice", "parallel_tool_calls"):
                holder.pop(name, None)

    def sift_blocks(self, holder: object, key: str, judge: BlockJudge, stand_in: JsonMap) -> None:
        """Take out blocks of the list at `key`, and of lists of blocks inside of them."""
        blocks = holder.get(key) if isinstance(holder, dict) else None
        if not isinstance(blocks, list):
            return
        for at, block in enumerate(blocks):
            if not isinstance(block, dict):
                continue
            if self.takes(judge(block)):
                blocks[at] = dict(stand_in)
            else:
                self.sift_blocks(block, "content", judge, stand_in)


def is_inline(address: object) -> bool:
    """Whether an address holds what it stands for; anything else has to be fetched."""
    return isinstance(address, str) and address[:5].lower() == "data:"
