from labrunner.analysis.sums.lineage import Lineage, describe_lineage


def test_what_came_before_is_told_in_one_order_however_it_was_counted() -> None:
    standings = {"failed": 12, "graded_again": 8}
    told = {
        describe_lineage(
            Lineage(
                runs=("r0", "r1"),
                attempts=20,
                rerolls=12,
                standings=dict(pairs),
                causes={"provider": 12},
                verdicts={"fail": 8},
                tokens=300.0,
                cost_usd=0.2,
            )
        )
        for pairs in (standings.items(), reversed(standings.items()))
    }
    assert told == {
        "before this run: 20 attempts in r0, r1 (12 failed; 8 judged anew since; errors by cause: "
        "provider 12; they used 300 tokens and 0.20 USD)"
    }
