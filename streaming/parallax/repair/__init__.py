"""Repairs divergences when a person asks for it.

It makes a plan, runs it step by step, and proves the result of each step before the next.
"""
