"""The rules that replicas must keep (`parallax.model.Rule`), as pure functions on arrays: no Spark, no clock, no IO."""
