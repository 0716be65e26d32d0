"""Reads one broker's replicas: sends it requests, decodes its record batches, and derives transactions' outcomes.

It needs no Spark. Import from the package's modules. The package itself imports nothing, so that a process that only
asks for watermarks does not load the compiled decoder.
"""
