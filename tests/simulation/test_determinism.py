"""The same history gives the same state and the same suspects in every process, whatever Python hashes to what."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROGRAM = """
import hashlib
from tests.simulation.history import generate, profile
from tests.simulation.world import World

digest = hashlib.blake2b(digest_size=16)
for seed in range(25):
    world = World(profile(seed, healthy=False))
    world.run(generate(world.profile))
    digest.update(world.monitor.state)
    digest.update(repr([(s.suspect_id, s.accusation, s.positions) for s in world.monitor.suspects]).encode())
    digest.update(repr([(f.kind, f.broker, f.offset, f.reason) for f in world.monitor.confirmed]).encode())
print(digest.hexdigest())
"""


def digest_under(hash_seed: int) -> str:
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed)}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def test_no_verdict_depends_on_the_order_of_a_set_or_on_the_hash_seed() -> None:
    digests = {digest_under(hash_seed) for hash_seed in (0, 1, 744)}
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 32
