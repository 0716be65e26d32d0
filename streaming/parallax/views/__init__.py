"""The Delta tables that record what each broker shows, the queries that write them, and their upkeep."""
