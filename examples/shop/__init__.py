"""A simulated shop on Headrace: what `make demo` runs.

Read it in the order of an event's life: `journeys` invents what visitors do, `storefront` produces
it, `groups` consumes it twice over, `ledger` checks that nothing is lost on the way. `observer`
asks the broker how things stand, `screen` and `lines` show it, `verdict` compares the numbers at
the end, and `demo` ties them together.
"""
