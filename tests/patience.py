"""How long a test waits for what comes: only something that hangs takes so long, however busy the machine is."""

from __future__ import annotations

PATIENCE_S = 60.0

__all__ = ["PATIENCE_S"]
