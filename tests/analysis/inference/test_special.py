import subprocess
import sys

NAMES = ("stdtrit", "ndtri", "chdtrc", "stdtr", "gammaln")
WORTH = """
import sys
from labrunner.analysis.inference import distributions
from labrunner.analysis.inference.special import load_special

print(distributions.t_quantile(17, 0.975).hex(), distributions.normal_quantile(0.9).hex(), end=" ")
print(distributions.chi_square_tail(3.7, 1).hex(), distributions.t_tail(11, 0.5).hex(), end=" ")
print(*(chance.hex() for chance in distributions.hypergeometric_chances(20, 7, 9)))
"""


def run(code: str, *, first: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", f"{first}\n{code}"], capture_output=True, text=True, check=True
    )
    return done.stdout


def test_functions_give_the_same_to_the_last_bit_as_the_whole_package() -> None:
    lean = run(WORTH + "assert 'scipy.special' not in sys.modules")
    assert lean == run(WORTH, first="import scipy.special")
    assert lean.count("0x") == 12


def test_who_imports_the_package_later_gets_all_of_it_with_the_same_functions() -> None:
    run(
        "from labrunner.analysis.inference.special import load_special\n"
        "lean = load_special()\n"
        "assert load_special() is lean\n"
        "import scipy.special, scipy.stats\n"
        f"assert all(getattr(scipy.special, name) is getattr(lean, name) for name in {NAMES})\n"
        "assert all(hasattr(scipy.special, name) for name in scipy.special.__all__)\n"
        "assert scipy.special._ufuncs is lean\n"
        "assert load_special() is scipy.special\n"
        "assert scipy.special.logsumexp([0.0, 0.0]) > 0.69 and scipy.stats.norm.ppf(0.5) == 0.0\n"
    )


def test_with_other_threads_about_the_package_is_imported_whole() -> None:
    run(
        "import sys, threading\n"
        "from labrunner.analysis.inference.special import load_special\n"
        "done = threading.Event()\n"
        "threading.Thread(target=done.wait).start()\n"
        "whole = load_special()\n"
        "done.set()\n"
        "assert whole is sys.modules['scipy.special'] and whole.logsumexp\n"
    )


def test_where_the_functions_are_not_where_they_were_the_package_is_imported_whole() -> None:
    run(
        "import sys\n"
        "from labrunner.analysis.inference import special\n"
        "def refuse():\n"
        "    raise ImportError\n"
        "special._load_functions = refuse\n"
        "whole = special.load_special()\n"
        "assert whole is sys.modules['scipy.special'] and whole.stdtrit\n"
    )
