"""The invariants of docs/theory.md as pure functions on arrays: no Spark, no clock, no input or output."""
