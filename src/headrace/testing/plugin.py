"""The pytest plugin; loaded in every pytest run of a project that has Headrace installed."""
