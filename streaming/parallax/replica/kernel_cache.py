"""Where a process keeps compiled kernels if it may not write next to the code.

That is so in an image. numba does not look at kernels in a folder where it cannot write. But those that were compiled
when the image was made lie next to the code. So they are copied to a folder where this process may write. That is its
user's cache or, where it has no home, a temporary folder. A kernel that does not fit the processor is compiled there.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from numba import config
from numba.core import caching


class SeededLocator(caching.UserWideCacheLocator):
    """Keeps the compiled kernels of a module in its user's cache.

    It begins with a copy of what was compiled next to the module.
    """

    def ensure_cache_path(self) -> None:
        """Make the folder of the cache.

        Raises:
            OSError: it cannot be written.
        """
        super().ensure_cache_path()
        _seed(Path(self._py_file).parent / "__pycache__", Path(self._cache_path))


@lru_cache(maxsize=32)
def _seed(beside: Path, folder: Path) -> None:
    """Copy the kernels that are newer than those in the folder; each index last, as it names the others."""
    for index in beside.glob("*.nbi"):
        known = folder / index.name
        if known.exists() and known.stat().st_mtime >= index.stat().st_mtime:
            continue
        for file in (*beside.glob(f"{index.stem}.*.nbc"), index):
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as copy:
                copy.write(file.read_bytes())
            Path(copy.name).replace(folder / file.name)


class ScratchLocator(caching.InTreeCacheLocator):
    """Keeps the compiled kernels of a module in a temporary folder.

    It begins with a copy of what was compiled next to the module.
    """

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
    """Have numba use these folders where it may not write next to the code.

    A choice of folders that was made already stays (numba's ``CACHE_LOCATOR_CLASSES``).
    """
    if config.CACHE_LOCATOR_CLASSES:
        return
    instead = {caching.UserWideCacheLocator: SeededLocator}
    usual = (instead.get(one, one) for one in caching.CacheImpl._locator_classes)  # noqa: SLF001
    wanted = (f"{one.__module__}.{one.__qualname__}" for one in (*usual, ScratchLocator))
    config.CACHE_LOCATOR_CLASSES = ",".join(wanted)


__all__ = ["ScratchLocator", "SeededLocator", "allow_read_only"]
