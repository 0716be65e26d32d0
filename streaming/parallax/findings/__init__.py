"""Turns suspects into findings: asks the brokers, decides from their answers, and records events.

Its input is the table ``suspects``, its output the table ``findings``. A finding is checked again until it is over.
"""
