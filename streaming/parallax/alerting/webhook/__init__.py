"""Sends messages about findings directly to receivers, for users without an Alertmanager."""
