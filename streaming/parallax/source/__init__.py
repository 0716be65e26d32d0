"""The PySpark data sources ``kafka-replica`` (records) and ``kafka-progress`` (offsets and open transactions)."""
