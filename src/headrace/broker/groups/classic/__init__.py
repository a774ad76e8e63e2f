"""Groups whose members share out the work themselves, generation by generation.

Read `state` for the states, `group` for how a group moves through them, and `joining` and
`membership` for what each request means on the way.
"""
