"""Repairs divergences when a person asks for it.

``parallax repair plan`` makes a plan from findings, and ``parallax repair run`` runs it step by step. The result of
each step is proven on the replicas before the next step begins.
"""
