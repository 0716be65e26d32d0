"""One broker over the wire: pinned requests, record batches to columns, transaction outcomes. No Spark.

Import what you need from the modules. This one imports nothing, so that a process that only asks for watermarks does
not load the compiled decoder.
"""
