"""scipy's special functions, without everything else that `import scipy.special` brings.

The package's own beginning loads adapters for other array libraries and, through them, numpy's compiler of
Fortran: 0.17 s of processor time, and a small `lab show` would take 1.34 times as much (`bench shortcuts`).
The functions live in one extension module, `_ufuncs`, and are the same objects, so every figure is the same
to the last bit.

Rules: where scipy is laid out otherwise, or other threads might be importing it, it is imported whole. Who
imports `scipy.special` later gets all of it.
"""

import sys
import threading
from importlib import import_module
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Final

_PACKAGE: Final = "scipy.special"
_FUNCTIONS: Final = f"{_PACKAGE}._ufuncs"


def load_special() -> ModuleType:
    """The module that has scipy's special functions."""
    if _PACKAGE not in sys.modules and _FUNCTIONS in sys.modules:
        return sys.modules[_FUNCTIONS]
    if _PACKAGE in sys.modules or threading.active_count() > 1:
        return import_module(_PACKAGE)
    try:
        return _load_functions()
    except ImportError:
        return import_module(_PACKAGE)


def _load_functions() -> ModuleType:
    """Import the functions with an empty module in the package's place."""
    spec = PathFinder.find_spec(_PACKAGE, import_module("scipy").__path__)
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError(_PACKAGE)
    place = ModuleType(_PACKAGE)
    place.__path__ = spec.submodule_search_locations
    sys.modules[_PACKAGE] = place
    try:
        return import_module(_FUNCTIONS)
    finally:
        del sys.modules[_PACKAGE]
