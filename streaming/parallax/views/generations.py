"""Numbers the checkpoints of a query on an object store (*generations*), because no folder can be renamed there.

Each generation is a folder of its own, named by a number and the epoch of the job that writes it
(`parallax.views.lease`). A small object with the folder's name, put once and last, says that it has begun. The highest
generation that has begun is the checkpoint. This has three effects:

- A broken checkpoint is set aside by beginning the next generation empty, in one put.
- A job that takes a storage over copies the checkpoint, within the store, into a generation of its own. A frozen job
  may still write or delete, but in a folder that nobody reads any more.
- A job that dies while it copies leaves a folder that has not begun. The next job copies the same checkpoint again.

::

    checkpoints/<query>/0000000007-0001/offsets/42     a file in the folder of a generation
    checkpoints/<query>/0000000007-0001.copying        this generation is being filled
    checkpoints/<query>/0000000007-0001.json           this generation has begun
    checkpoints/<query>/0000000006-0002.broken         why this generation was set aside
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Self

from parallax.stores import hadoop_path
from parallax.views.fencing import FencedError
from parallax.views.objects import Objects

_NAME = re.compile(r"(\d{10})-(\d{4})")
_COPYING, _BEGUN, _BROKEN = ".copying", ".json", ".broken"
_FOR_CHECKS = ("offsets/", "commits/", "metadata", "segments/at-")
"""How the names of the files begin that show whether a checkpoint can be used."""


class Generation(NamedTuple):
    """One of the numbered checkpoints (*generations*) of a query on an object store, e.g. ``0000000007-0001``.

    Attributes:
        epoch: epoch of the job that writes the generation.
        number: its number within this epoch, from 1.
    """

    epoch: int
    number: int

    @property
    def name(self) -> str:
        """The name of the generation's folder; names sort as generations do."""
        return f"{self.epoch:010d}-{self.number:04d}"

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """The generation that has a folder of a given name; None if no generation can have that name.

        Args:
            name: name of the folder.
        """
        found = _NAME.fullmatch(name)
        return None if found is None else cls(int(found[1]), int(found[2]))


def newest(objects: Iterable[str]) -> Generation | None:
    """The generation that is the checkpoint now, i.e. the highest one that has begun; None if none has.

    Args:
        objects: names of the objects next to the generations' folders, e.g. ``0000000007-0001.json``.
    """
    begun = (Generation.parse(name.removesuffix(_BEGUN)) for name in objects if name.endswith(_BEGUN))
    return max((one for one in begun if one is not None), default=None)


def dispensable(objects: Iterable[str], current: Generation, kept: int) -> list[str]:
    """The names of the generations that can be deleted: those before the current one, except some broken ones.

    Later generations are not among them, because another job writes them.

    Args:
        objects: names of the objects next to the generations' folders.
        current: the highest generation that has begun.
        kept: how many broken generations are not deleted, so that people can find out what happened.
    """
    names = list(objects)
    stems = map(Generation.parse, {Path(name).stem for name in names})
    known = {found for found in stems if found is not None and found < current}
    broken = sorted(found for found in known if found.name + _BROKEN in names)
    return sorted(found.name for found in known - set(broken[-kept:] if kept else ()))


class Generations:
    """Says which folder of an object store is a query's checkpoint now, and begins a new one where that is needed.

    Such a folder is a *generation* of the checkpoint. A job that takes the storage over begins a generation as a copy
    of the last one. If the checkpoint is broken, the job begins an empty one. The highest generation that has begun is
    the checkpoint.

    Args:
        objects: the objects below ``storage.path``.
        storage: ``storage.path``.
        query: the query's name.
        epoch: the epoch of the lease of the job that uses this object.
        kept: how many broken generations are left in the store, the newest ones, so that people can find out what
            happened. All other generations before the checkpoint are deleted.
    """

    def __init__(self, objects: Objects, storage: str, query: str, epoch: int, kept: int = 3) -> None:
        self._objects, self._epoch, self._kept = objects, epoch, kept
        self._folder = f"checkpoints/{query}"
        self._root = f"{hadoop_path(storage.rstrip('/'))}/{self._folder}"
        self._current: Generation | None = None

    def location(self) -> str:
        """The URI of the folder in which Spark keeps the checkpoint, in Hadoop's spelling.

        It is the current generation. If this job's epoch has none yet, the job begins one: a copy of the highest
        generation, or empty if there is none.

        Raises:
            FencedError: a job with a higher epoch has begun one.
            StoreError: the store cannot be reached.
        """
        if self._current is None:
            self._current = self._begin()
        return f"{self._root}/{self._current.name}"

    def fetch(self, target: Path) -> None:
        """Copy to a local folder the files of the current generation that show whether it can be used.

        Args:
            target: the folder.

        Raises:
            StoreError: the store cannot be reached.
        """
        self.location()
        prefix = f"{self._folder}/{self._name()}/"
        below = [one.name.removeprefix(prefix) for one in self._objects.below(prefix.rstrip("/"))]
        wanted = [name for name in below if name.startswith(_FOR_CHECKS)]
        for name, content in self._objects.get_all(prefix + name for name in wanted).items():
            path = target / name.removeprefix(prefix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def set_aside(self, problem: str) -> tuple[str, str]:
        """Begin an empty generation in place of a broken one; returns both URIs, that of the broken one first.

        Args:
            problem: why the old generation is broken; recorded next to it.

        Raises:
            StoreError: the store cannot be reached; then the old generation is still the checkpoint.
        """
        before, old = self.location(), self._name()
        following = Generation(self._epoch, Generation(*self._current or (0, 0)).number + 1)
        self._objects.put(f"{self._folder}/{old}{_BROKEN}", json.dumps({"problem": problem}).encode())
        self._mark(following, None)
        self._current = following
        self._clean()
        return before, self.location()

    def _begin(self) -> Generation:
        _, objects = self._objects.children(self._folder)
        found = newest(objects)
        if found is not None and found.epoch > self._epoch:
            raise FencedError(f"{self._root}: another job has taken the storage over (epoch {found.epoch})")
        if found is not None and found.epoch == self._epoch:
            return found
        fresh = Generation(self._epoch, 1)
        if found is not None:
            self._objects.put(f"{self._folder}/{fresh.name}{_COPYING}", b"{}")
            self._objects.copy(self._copies(found, fresh))
        self._mark(fresh, found)
        self._current = fresh
        self._clean()
        return fresh

    def _copies(self, found: Generation, fresh: Generation) -> list[tuple[str, str]]:
        """The names to copy from one generation to another: each with the name of its copy."""
        prefix = f"{self._folder}/{found.name}/"
        # What is empty is Hadoop's mark of a folder; what it has not renamed yet begins with a dot.
        names = [one.name.removeprefix(prefix) for one in self._objects.below(prefix.rstrip("/")) if one.size]
        whole = [name for name in names if not any(part.startswith(".") for part in name.split("/"))]
        return [(prefix + name, f"{self._folder}/{fresh.name}/{name}") for name in whole]

    def _mark(self, generation: Generation, copied: Generation | None) -> None:
        document = {"from": None if copied is None else copied.name}
        self._objects.create(f"{self._folder}/{generation.name}{_BEGUN}", json.dumps(document).encode())

    def _clean(self) -> None:
        _, objects = self._objects.children(self._folder)
        for name in dispensable(objects, Generation(*self._current or (0, 0)), self._kept):
            self._objects.delete(one.name for one in self._objects.below(f"{self._folder}/{name}"))
            self._objects.delete(f"{self._folder}/{name}{end}" for end in (_COPYING, _BROKEN, _BEGUN))

    def _name(self) -> str:
        return Generation(*self._current or (0, 0)).name


__all__ = ["Generation", "Generations", "dispensable", "newest"]
