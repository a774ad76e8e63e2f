"""What the console knows: gathered in the background, bounded, and never older than it says.

`observation` is how one matter is watched; `topics`, `groups`, `flows`, `captures`, `views` and
`processes` are the matters, `messages` and `tracing` what is looked up when somebody asks, and
`observatory` is all of it together.
"""
