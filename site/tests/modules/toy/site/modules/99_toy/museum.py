"""What each exhibit of module 99 shows, broken and fixed, as regular expressions."""

BROKEN = {"toy-lonely": (r"^0: toys 1$", r"^1: toys 1$")}
FIXED = {"toy-lonely": (r"^0: toys 2$", r"^1: toys 2$")}
