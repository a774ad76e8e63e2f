"""Headrace measured beside its peers, in one run and with the same client.

`broker` compares the broker with Apache Kafka; `retention` compares a full, crowded broker with
an empty, quiet one. Each is a list of experiments (`experiment`) whose rounds alternate between
the contestants (`peers`), made of the same few loads (`load`) sent by librdkafka without Python
in its loop (`librdkafka`), and ends in a table and one line of JSON (`report`).
"""
