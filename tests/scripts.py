"""The project's scripts, which are no package, as modules that a test can call."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_SCRIPTS = Path(__file__).parents[1] / "scripts"


def script_of(name: str) -> ModuleType:
    """Load ``scripts/NAME.py``, afresh at each call."""
    spec = importlib.util.spec_from_file_location(name, _SCRIPTS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for what their annotations name
    spec.loader.exec_module(module)
    return module
