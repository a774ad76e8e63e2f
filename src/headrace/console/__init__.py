"""The console: one page that says what runs, how far behind it is, and what is in a topic.

`observing` gathers, with no idea of a browser: each of its modules looks at one matter in a thread
of its own and keeps the last it saw. `pages` only shows that, one file a page; `frame` is what is
around each of them, `guarding` who is let in, `auditing` what was changed by whom. `alerting`
judges what was observed. `supervising` is `headrace up`, which starts everything and needs none of
the rest. Nothing here imports NiceGUI but `pages`, `frame`, `widgets` and `serving`.
"""
