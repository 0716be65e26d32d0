"""Three real local Kafka brokers and the scenarios that make their replicas diverge."""
