"""Turns suspects into findings: asks the brokers, decides from their answers, and records each decision as an event.

Its input is the table ``suspects``, its output the table ``findings``. A finding that is open is checked again, until
it is over.
"""
