"""`headrace up`: everything that one headrace.toml describes, as processes that are kept running.

`parts` says what there is to run, `process` is one of them with its log and its pauses,
`supervisor` starts and stops them in order, `record` is the file in which others see it, and
`control` the socket through which the console asks for a part to be stopped or started. No part
dies unnoticed, and none outlives the supervisor, whatever ends that.
"""
