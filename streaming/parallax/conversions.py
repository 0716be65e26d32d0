"""Keeps pyarrow from importing pandas when it converts Python values into columns."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import pyarrow as pa


class _NotNow:
    """Finds no pandas."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        """As importlib asks each finder."""
        if name == "pandas":
            raise ModuleNotFoundError("pyarrow is not to import pandas to look whether a list is one of its columns")


@cache
def keep_pandas_out() -> None:
    """Let pyarrow convert Python values without importing pandas, which would cost 26 MB and up to seconds.

    pyarrow tries that import once, at its first conversion. This function makes that conversion while the import is
    blocked. Functions that need pandas (``to_pandas``) still import it. If pandas is imported already, nothing changes.
    """
    finder = _NotNow()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
