"""The rules that replicas must keep (`parallax.model.Rule`), as pure functions on arrays.

They know no Spark, read no clock and do no IO.
"""
