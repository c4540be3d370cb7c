"""Which conversation a request belongs to: it says all that was said before, and nothing of whose it is.

Rules: a request goes on from the conversation whose last answer it repeats, or whose last request, with an
answer in other words behind it; of several, from the one that it has most in common with. One that repeats a
conversation that got no answer tries it again. One that begins
like another and then differs branches off it; any other begins anew, out of the conversation that waits for
a tool, if one does: that is how agents start others. Clients edit what they repeat, so what comes before
the last answer need not be the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from labrunner.records.facts.transcript_events import count_common


@dataclass(slots=True, kw_only=True)
class Thread:
    """One conversation."""

    number: int
    parent: int | None
    asked: Sequence[int] = ()
    """Messages of its last request."""
    answer: int | None = None
    response_id: str | None = None
    waits_for_tool: bool = False


@dataclass(slots=True, kw_only=True)
class Threads:
    """All conversations of an attempt, in the order in which they began."""

    is_opening: Callable[[int], bool]
    """Whether a message says nothing of what a conversation is about: what a model is told to be."""
    is_answer: Callable[[int], bool]
    """Whether a message is a model's."""
    known: list[Thread] = field(default_factory=list)

    def place(self, asked: Sequence[int], continues: str | None = None) -> tuple[Thread, Sequence[int]]:
        """The conversation of a request, and its messages with those that the provider kept."""
        if continues is not None and (kept := self._find_kept(continues)):
            before = [*kept.asked, *([] if kept.answer is None else [kept.answer])]
            return kept, [*before, *asked]
        return self._find(asked) or self._begin(asked), asked

    def note(
        self,
        thread: Thread,
        asked: Sequence[int],
        answer: int | None,
        *,
        response_id: str | None = None,
        waits_for_tool: bool = False,
    ) -> None:
        """Take in what came of a request."""
        thread.asked, thread.answer = asked, answer
        thread.response_id, thread.waits_for_tool = response_id, waits_for_tool

    def _find_kept(self, response_id: str) -> Thread | None:
        return next((each for each in reversed(self.known) if each.response_id == response_id), None)

    def _find(self, asked: Sequence[int]) -> Thread | None:
        repeated = set(asked)
        going_on = [thread for thread in self.known if self._goes_on(thread, asked, repeated)]
        return max(going_on, key=lambda each: (self._common(each, asked), each.number), default=None)

    def _goes_on(self, thread: Thread, asked: Sequence[int], repeated: set[int]) -> bool:
        if thread.answer is None:
            return self._share(thread, asked)
        end = len(thread.asked)
        is_reworded = self._common(thread, asked) == end < len(asked) and self.is_answer(asked[end])
        return thread.answer in repeated or is_reworded

    def _begin(self, asked: Sequence[int]) -> Thread:
        alike = [thread for thread in self.known if self._share(thread, asked)]
        waiting = [thread for thread in self.known if thread.waits_for_tool]
        branch = max(alike, key=lambda each: (self._common(each, asked), each.number), default=None)
        parent = branch or (waiting[-1] if waiting else None)
        thread = Thread(number=len(self.known), parent=None if parent is None else parent.number)
        self.known.append(thread)
        return thread

    def _common(self, thread: Thread, asked: Sequence[int]) -> int:
        return count_common(thread.asked, asked)

    def _share(self, thread: Thread, asked: Sequence[int]) -> bool:
        """Whether both begin with the same, and more than what the model is told to be."""
        common = asked[: self._common(thread, asked)]
        return any(not self.is_opening(number) for number in common)
