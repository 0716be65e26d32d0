"""Where compiled kernels are kept by a process that may write neither beside the code nor in a home.

That is what a worker of a cluster is whose image holds Parallax: numba refuses to import kernels that it cannot keep,
although those that were compiled when the image was made lie beside the code. So they are copied to where this process
may write, and what does not fit its processor is compiled there.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from numba import config
from numba.core import caching


class ScratchLocator(caching.InTreeCacheLocator):
    """Keeps the kernels of a module in a temporary folder, with what was compiled beside it before."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        self._cache_path: str = _scratch(super().get_cache_path())


@lru_cache(maxsize=8)
def _scratch(beside: str) -> str:
    folder = Path(_folder().name, str(len(list(Path(_folder().name).iterdir()))))
    folder.mkdir()
    for file in Path(beside).glob("*.nb[ic]"):
        shutil.copy(file, folder)
    return str(folder)


@lru_cache(maxsize=1)
def _folder() -> Any:
    return tempfile.TemporaryDirectory(prefix="parallax-kernels-", ignore_cleanup_errors=True)


def allow_read_only() -> None:
    """Have numba look here after everywhere else, unless somebody has told it where to look."""
    if not config.CACHE_LOCATOR_CLASSES:
        usual = (f"{one.__module__}.{one.__qualname__}" for one in caching.CacheImpl._locator_classes)  # noqa: SLF001
        config.CACHE_LOCATOR_CLASSES = ",".join([*usual, f"{__name__}.{ScratchLocator.__name__}"])


__all__ = ["ScratchLocator", "allow_read_only"]
