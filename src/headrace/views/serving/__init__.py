"""Views over HTTP.

`server` runs the rest in an event loop of its own; `catalog` has the views that it serves, and
`view` is one of them. `application` has the routes: `reading` answers with rows, `cuts` with rows
of several views at one position, `streaming` with feeds. `access` says who may read what, `answers`
how answers and errors look, `openapi` and `page` tell people and programs about all this.
"""
