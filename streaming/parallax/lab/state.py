"""Keeps a JSON file for each lab, so that later commands find the brokers that ``parallax lab up`` started."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import psutil

from parallax.jars import cache_folder
from parallax.lab.broker import Broker
from parallax.lab.cluster import Cluster
from parallax.lab.errors import LabError

DEFAULT_LAB = "default"


def labs_folder(directory: Path | None = None) -> Path:
    """The folder with the state files of labs: ``directory``, else ``lab`` in Parallax' cache folder."""
    return directory or cache_folder() / "lab"


def state_file(name: str, directory: Path | None = None) -> Path:
    """Path of the JSON file that describes a lab.

    Args:
        name: name of the lab.
        directory: the folder of the file; ``lab`` in the cache folder by default.

    Raises:
        LabError: the lab's name cannot be that of a file.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise LabError(f"a lab cannot be called {name!r}; use letters, digits, - and _")
    return labs_folder(directory) / f"{name}.json"


def save(cluster: Cluster, file: Path) -> None:
    """Write a lab's state file: the ids, ports, folders and processes of its brokers, for later commands."""
    document = {
        "version": cluster.version,
        "cluster_id": cluster.cluster_id,
        "folder": str(cluster.folder),
        "brokers": [_broker_document(broker) for broker in cluster.brokers.values()],
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        json.dump(document, out, indent=2)
    Path(name).replace(file)


def _broker_document(broker: Broker) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": broker.id,
        "port": broker.port,
        "controller_port": broker.controller_port,
        "folder": str(broker.folder),
        "controller": broker.controller,
    }
    if broker.running and broker.process is not None:
        document |= {"pid": broker.process.pid, "started": broker.process.create_time()}
    return document


def load(file: Path) -> Cluster | None:
    """Read a state file; returns the lab as a `Cluster` that starts nothing, or None if there is no such file.

    Raises:
        LabError: the file cannot be read.
    """
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        brokers = [_broker(each) for each in document["brokers"]]
        cluster = Cluster.attached(document["version"], document["cluster_id"], Path(document["folder"]), brokers)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(f"{file}: not a lab's state file ({error}); stop its brokers by hand and remove it") from error
    cluster.on_processes = lambda changed: save(changed, file)
    return cluster


def _broker(document: dict[str, Any]) -> Broker:
    return Broker(
        document["id"],
        document["port"],
        document["controller_port"],
        Path(document["folder"]),
        process=_process(document.get("pid"), document.get("started")),
        controller=document.get("controller", True),
    )


def _process(pid: int | None, started: float | None) -> psutil.Process | None:
    """The broker's process, unless its number belongs to another one by now."""
    if pid is None or started is None:
        return None
    try:
        process = psutil.Process(pid)
        return process if abs(process.create_time() - started) < 1.0 else None
    except psutil.NoSuchProcess:
        return None
