"""Sends messages about findings directly to receivers, such as Slack, for users without an Alertmanager."""
