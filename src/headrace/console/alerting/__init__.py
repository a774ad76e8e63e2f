"""Alarms about what the console observes: `rules` raises them, `watch` remembers and sends them.

Lag of consumer groups is judged by `headrace.kafka.lag_alerts`; both are delivered alike.
"""
