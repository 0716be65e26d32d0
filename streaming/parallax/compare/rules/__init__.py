"""The invariants of docs/contribute/theory.md as pure functions on arrays: no Spark, no clock, no input or output."""
