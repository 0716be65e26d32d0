"""One broker over the wire: pinned requests, record batches to columns, transaction outcomes. No Spark."""
