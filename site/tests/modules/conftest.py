"""The toy module's own tests are collected where it is added: in a copy of the project."""

collect_ignore = ["toy"]
