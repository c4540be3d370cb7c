"""What a call is taken to have used, also where nobody said so.

Rules: what the provider reports counts. An answer that broke off is counted from above by what was seen of
it; one of which nothing was seen counts as all that was set aside for it. Errors that a provider tells are
not billed.
"""

from dataclasses import dataclass, replace

from labrunner.gateway.dialects.bounds import UNKNOWN_OUTPUT
from labrunner.gateway.dialects.speech import Ask, Heard, Tokens
from labrunner.records.facts.model_call import TokenBasis


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """Tokens, and who says so."""

    tokens: Tokens
    basis: TokenBasis


def bound_tokens(ask: Ask, *, past: int, max_output: int = UNKNOWN_OUTPUT) -> Tokens:
    """What a request can take at most; `past` are all tokens of its attempt until now."""
    output = max_output if ask.max_output is None else ask.max_output
    return Tokens(input=ask.max_input + (past if ask.leans_on_past else 0), output=output)


def weigh(ask: Ask, most: Tokens, status: int | None, heard: Heard | None) -> Weighed | None:
    """What a call used that was passed on; None for one that is not billed.

    `heard` is None where nothing of an answer was seen.
    """
    if ask.purpose in {"models", "count_tokens"} or (status is not None and status >= 400):
        return None
    if heard is None or (heard.tokens is None and not heard.size and not heard.is_over):
        return Weighed(tokens=most, basis="reserved")
    if heard.tokens is not None and (heard.is_over or ask.purpose == "embeddings"):
        return Weighed(tokens=heard.tokens, basis="reported")
    return Weighed(tokens=_count(most, heard), basis="counted")


def _count(most: Tokens, heard: Heard) -> Tokens:
    """No token is shorter than a byte."""
    seen = min(heard.size, most.output)
    if heard.tokens is None:
        return Tokens(input=most.input, output=seen)
    return replace(heard.tokens, output=max(seen, heard.tokens.output))
