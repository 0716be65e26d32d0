"""Keeps pyarrow from importing pandas when it turns Python's values into columns."""

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
    """Let pyarrow make its first conversion without importing pandas, which saves memory and seconds.

    The import takes 26 MB of each process and up to seconds. pyarrow tries it once. What does need pandas
    (``to_pandas``) still imports it. Where pandas is imported already, this has no effect.
    """
    finder = _NotNow()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
