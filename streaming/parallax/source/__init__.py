"""The PySpark data sources ``kafka-replica`` and ``kafka-progress``."""
