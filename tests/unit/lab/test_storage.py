"""Storage of the lab's brokers is a copy of what Kafka's StorageTool made, with ids of their own."""

from pathlib import Path

import pytest

from parallax.java import Java
from parallax.lab.storage import format_storage

_META = "node.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAA\nversion=1\ncluster.id=BBBBBBBBBBBBBBBBBBBBBB\n"


@pytest.mark.parametrize(
    ("version", "checkpoint"),
    [
        ("4.3.0", "bootstrap.checkpoint"),
        ("4.4.0", "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"),
    ],
)
def test_a_checkpoint_is_copied_from_wherever_the_version_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, checkpoint: str
) -> None:
    monkeypatch.setenv("PARALLAX_CACHE", str(tmp_path))
    made = tmp_path / f"prepared-{version}"
    (made / checkpoint).parent.mkdir(parents=True)
    (made / checkpoint).write_bytes(b"levels")
    (made / "meta.properties").write_text(_META, encoding="utf-8")
    (made / "classes-17.0.1.jsa").write_bytes(b"classes")
    data = made / ".archive-x" / "data"
    java = Java(Path("java"), 17, "17.0.1")
    format_storage(data, java=java, jars=tmp_path, version=version, cluster_id="C" * 22, node_id=3)
    assert (data / checkpoint).read_bytes() == b"levels"
    assert {path.name for path in data.iterdir()} == {"meta.properties", Path(checkpoint).parts[0]}
    text = (data / "meta.properties").read_text(encoding="utf-8")
    assert "node.id=3" in text
    assert f"cluster.id={'C' * 22}" in text
    assert "directory.id=AAAA" not in text
