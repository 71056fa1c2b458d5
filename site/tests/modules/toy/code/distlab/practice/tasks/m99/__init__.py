"""The exercise of module 99."""
