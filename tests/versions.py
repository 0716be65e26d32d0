"""What was tried on which version of Kafka: tests/e2e/test_versions.py tries it, docs/operate/install.md shows it."""

from __future__ import annotations

FOUND = ("3.6.2", "3.9.2", "4.0.2", "4.1.2", "4.2.1", "4.3.0", "4.4.0")
"""The demo's five divergences are found there, and nothing else."""

READ = ("3.3.2",)
"""Every replica is read. Its cleaner keeps an end marker as long as the producer is known, a day: so the demo cannot
make a divergence there that needs one to be gone."""

REPAIRED = ("3.9.2", "4.2.1", "4.4.0")
"""The demo's five divergences are repaired there: by end markers, and by copies from a right leader."""
