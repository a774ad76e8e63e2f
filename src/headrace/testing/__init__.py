"""Brokers for tests: `plugin` has the pytest fixtures, `apache_kafka` runs the real thing."""
