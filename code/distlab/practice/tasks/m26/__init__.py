"""The exercises of module 26."""
