"""The doctor tells whether a first distributed run works on this machine, and how."""
