"""The exercises of module 26."""

SHARED = ("replicas",)
