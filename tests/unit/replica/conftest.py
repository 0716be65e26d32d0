"""Settings of the tests of parallax.replica."""

from __future__ import annotations

from hypothesis import settings

# A machine that is busy with brokers says nothing about the code under test.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
