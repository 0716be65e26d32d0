"""The comparison of replicas: rows of the tables in, suspects and coverage out.

The rules are pure functions on arrays. A Spark stream reads the tables and runs the rules.
"""
