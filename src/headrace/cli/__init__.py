"""The `headrace` command.

`main` is the root and `commands` lists what grows from it; `broker`, `topics`, `produce`, `tail`
and `groups` are one command or family each and only translate between people and `headrace.kafka`.
`options` holds what several of them accept, `output` how all of them speak, `failures` how they
end.
"""
