"""`scripts/house [--check]`: prints the rooms of the source, or which rules of it are broken."""

import argparse
import sys

from bench.house import account, rules
from bench.house.reading import read_house


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/house", description=__doc__)
    parser.add_argument("--check", action="store_true", help="print only broken rules; exit with 1 if any is")
    options = parser.parse_args(argv)
    house = read_house()
    lines = rules.find_broken(house) if options.check else list(account.tell(house))
    print("\n".join(lines) or "no rule is broken")
    return 1 if options.check and lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
