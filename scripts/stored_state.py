"""Keep the state of a job that has ended, so that the tests of later releases take it over.

``python scripts/stored_state.py STORAGE``, with each release: ``STORAGE`` is the ``storage.path`` of a job of it, as
the demo leaves one (``parallax demo --data STORAGE``). Writes
``tests/stored/VERSION.tar.xz``: the storage as it is, and next to it ``told.json``, what this release reads there.
``tests/unit/scripts/test_stored_state.py`` has every later program read the same.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from parallax.compare.query import QUERY, followed
from parallax.compare.segments import Store, offset_mark
from parallax.findings.explain import explain
from parallax.findings.finding import current
from parallax.findings.table import read_events, read_suspects
from parallax.guard.late import load as late_replicas
from parallax.model import IsolationLevel, TopicPartition
from parallax.source.offsets import from_json
from parallax.views.binding import bound_to
from parallax.views.checkpoints import Checkpoint, damage
from parallax.views.positions import positions_since
from parallax.views.tables import PROGRESS, VIEWS, rust_uri

STORED = Path(__file__).resolve().parent.parent / "tests" / "stored"
LARGEST = 300_000
"""Bytes that an archive may have: it stays in the repository for good."""
_LEFT_OUT = ("job.lock",)


def _who(right: str) -> str:
    """Who is right, without why the others are not proven to be: that may be said in other words."""
    head, why, _ = right.partition(" is right is not proven: ")
    return f"{head}{why.rstrip(': ')}." if why else right


def told(storage: str) -> dict[str, Any]:
    """What the program reads in a storage, part by part, by the functions that a starting job uses."""
    events = read_events(storage)
    standing = current(events)
    return {
        "cluster": bound_to(storage),
        "rows": {name: DeltaTable(rust_uri(storage, name)).count() for name in (*VIEWS, PROGRESS)},
        "positions": {
            level.option: sorted(
                [*reader, recorded.position] for reader, recorded in positions_since(storage, level, -1)[0].items()
            )
            for level in IsolationLevel
        },
        "suspects": sum(len(rows) for rows in read_suspects(storage)),
        "events": len(events),
        "findings": sorted(
            [f.finding_id, f.status, f.kind, f.topic, f.partition, f.broker, f.offset, f.exposed]
            for f in standing.values()
        ),
        "right": {f.finding_id: _who(explain(f, standing.values()).right) for f in standing.values() if f.stands},
        "late": sorted([one.broker, *one.place] for one in late_replicas(storage) or ()),
        "followed": {name: place.version for name, place in followed(storage).items()},
        "offsets": offsets(storage),
        "states": states(storage),
        "damaged": [damage(one) for one in sorted(Path(storage, "checkpoints").iterdir()) if damage(one) is not None],
    }


def offsets(storage: str) -> dict[str, int]:
    """By query that reads brokers, of how many readers its checkpoint has the last offset."""
    found = {}
    for folder in sorted(Path(storage, "checkpoints").iterdir()):
        if folder.name in VIEWS:
            last = max((one for one in (folder / "offsets").iterdir() if one.name.isdigit()), key=lambda o: int(o.name))
            found[folder.name] = len(from_json(json.loads(last.read_text().splitlines()[-1])))
    return found


def states(storage: str) -> list[list[Any]]:
    """How many brokers the state of the comparison knows at its checkpoint, by topic and partition."""
    checkpoint = Path(Checkpoint(storage, QUERY).location())
    last = max(int(one.name) for one in (checkpoint / "commits").iterdir() if one.name.isdigit())
    *_, offset = (checkpoint / "offsets" / str(last)).read_text().splitlines()
    store = Store(str(checkpoint))
    manifest = store.manifest(offset_mark(json.loads(offset)))
    found = []
    for kept in store.load(manifest.segments).values():
        for row in kept.rows().to_pylist():
            state = kept.get(TopicPartition(row["topic"], row["partition"]))
            found.append([row["topic"], row["partition"], len(state.brokers)])
    return sorted(found)


def keep(storage: Path, to: Path) -> int:
    """Write the archive; return how many bytes it has."""
    with tempfile.TemporaryDirectory() as folder:
        document = Path(folder, "told.json")
        document.write_text(json.dumps(told(str(storage)), indent=1, sort_keys=True))
        with tarfile.open(to, "w:xz", preset=9) as archive:
            archive.add(document, "told.json", filter=_plain)
            for file in sorted(storage.rglob("*")):
                if file.is_file() and file.name not in _LEFT_OUT:
                    archive.add(file, f"storage/{file.relative_to(storage)}", filter=_plain)
    return to.stat().st_size


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Whose the files were is nobody's business."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main() -> int:
    """The command."""
    if len(sys.argv) != 2:
        print("stored_state.py STORAGE: give the storage.path of a job that has ended", file=sys.stderr)
        return 2
    STORED.mkdir(exist_ok=True)
    to = STORED / f"{version('kafka-parallax')}.tar.xz"
    if to.exists():
        print(f"{to} is there: a release is kept once", file=sys.stderr)
        return 2
    size = keep(Path(sys.argv[1]), to)
    if size > LARGEST:
        to.unlink()
        print(f"{size:,} bytes, more than {LARGEST:,}: give a storage of a shorter run", file=sys.stderr)
        return 1
    print(f"{to}: {size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
