"""Chooses a folder for compiled functions (numba's *kernels*) if the process cannot write next to their source.

numba writes a compiled function into a file next to the module that defines it, and reads that file in the next
process. A container image holds such files, and numba ignores them if it cannot write there. So they are copied to a
folder that this process can write: its user's cache or, without a home, a temporary folder. If a compiled function does
not fit the processor, numba compiles it again there.
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
    """Makes numba keep a module's compiled functions in the cache folder of the process's user.

    At the first use, the files of compiled functions that lie next to the module are copied there.
    """

    def ensure_cache_path(self) -> None:
        """Make the cache folder if it is missing, and copy the module's compiled functions there.

        numba may have written them next to the module before, as when a container image was built.

        Raises:
            OSError: the folder cannot be made, or is not writable.
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
    """Makes numba keep a module's compiled functions in a temporary folder.

    At the first use, the files of compiled functions that lie next to the module are copied there.
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
    """Make numba use this module's folders for compiled functions if it cannot write next to their source.

    If the process has set numba's ``CACHE_LOCATOR_CLASSES`` already, nothing changes.
    """
    if config.CACHE_LOCATOR_CLASSES:
        return
    instead = {caching.UserWideCacheLocator: SeededLocator}
    usual = (instead.get(one, one) for one in caching.CacheImpl._locator_classes)  # noqa: SLF001
    wanted = (f"{one.__module__}.{one.__qualname__}" for one in (*usual, ScratchLocator))
    config.CACHE_LOCATOR_CLASSES = ",".join(wanted)


__all__ = ["ScratchLocator", "SeededLocator", "allow_read_only"]
