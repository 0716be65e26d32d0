"""The lab: three real Kafka brokers on this machine, and scenarios that make their replicas diverge.

``parallax lab``, the demo and the end-to-end tests use it.
"""
