"""Prints the pages: reads what they ask for, has it executed, lays it out, and checks the result.

    scan       what a page's Markdown asks for: the one parser of code blocks
    fences     one fence: its options, the outcome it declares, how an outcome reads as text
    executor   executes fences: from the cache, else on distlab.spmd
    cache      outcomes on disk
    formatter  markdown-exec's formatters, with our way to run a block
    build      one build: what it was asked, what it ran, what is wrong with it
    gate       holds pages against what was asked and what ran; also a command over a built site
    modules    the modules of the course, as they are found on disk
    drift      what other versions of torch showed, as recorded

Markdown extensions: page_extension (math, tables, images), evidence (marks), glossary (terms).
Files to take along: downloads, practice_zip. Nothing here starts a process: distlab.spmd does.
"""
