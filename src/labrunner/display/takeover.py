"""What a retry takes over, grades again and runs: told before anything is spent."""

from labrunner.display.text.quantities import format_count
from labrunner.display.text.saying import say_aside
from labrunner.experiment.options.table import flag
from labrunner.runner.again.retrying import RetryPlan


def tell_plan(planned: RetryPlan) -> None:
    """Say what is taken over and what is run again, and why, before anything is spent."""
    for line in describe_plan(planned):
        say_aside(line)


def describe_plan(planned: RetryPlan) -> list[str]:
    """What is taken over and what is run again, and why, in lines."""
    reuse = planned.reuse
    lines = [f"{source.paths.root.name}: {source.loss}" for source in reuse.sources if source.loss]
    lines += [
        f"nothing is taken from {reuse.sources[number].paths.root.name}: {problem}"
        for number, problem in reuse.unusable.items()
    ]
    again = f", {len(reuse.again):,} to grade again" if reuse.again else ""
    lines += [f"{format_count(reuse.reused, 'trial')} taken over{again}, {reuse.owed:,} to run"]
    if reuse.vouched is not None:
        lines.append(
            f"  {reuse.vouched.trials:,} taken over from earlier code, "
            f"as {flag('reuse_edited')} vouches for it"
        )
    for reason, count in reuse.reasons.most_common():
        named = ", ".join(reuse.examples[reason])
        lines.append(f"  {count:,} {reason}: {named}{', ...' if count > len(reuse.examples[reason]) else ''}")
    lines += [f"  since then: {sentence}" for sentence in planned.changed]
    if planned.changed and reuse.vouched is None and any("changed" in reason for reason in reuse.reasons):
        lines.append(f"  where only code was edited and you vouch for it: {flag('reuse_edited')}")
    return lines


def plain_plan(planned: RetryPlan) -> dict[str, object]:
    """The same for programs."""
    reuse = planned.reuse
    return {
        "taken_over": reuse.reused,
        "to_run": reuse.owed,
        "reasons": dict(reuse.reasons),
        "changed": planned.changed,
        "vouched": reuse.vouched,
    }
