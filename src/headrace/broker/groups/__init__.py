"""Groups of members that share work, and how far each group has read.

`registry` has every group, `coordinator` is what requests are made to, `offsets` keeps what was
committed. In a group of the `classic` kind the members share out the work themselves; in one of the
`consumer` kind the coordinator does. Nothing here knows sockets or the wire format.
"""
