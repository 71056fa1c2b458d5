"""Prints the pages: reads what they ask for, has it executed, lays it out, and checks the result.

What pages ask for
    scan        the one parser of code blocks
    fences      one fence: its options and the outcome that it declares
    modules     the modules of the course, as they are found on disk
    nav, snippets   patterns in mkdocs.yml and on pages, which stand for files

What came of it
    executor    executes fences: from the cache, else on distlab.spmd
    cache       outcomes on disk, each valid while what its program read is the same
    judge       holds an outcome against the declared one, and tells it in words
    drift       what other versions of torch showed, as recorded

The site
    build       one build: what it was asked, what it ran, what is wrong with it
    formatter   markdown-exec's formatters, with our way to run a block
    gate        holds the built site against its sources, with rendered and links; also a command
    lighter     a finished page without what no reader sees and every reader loads
    draft       a site while it is built, swapped in as a whole
    memory      pages as they were rendered, while they are served
    progress    how far long work is

Markdown extensions: page_extension (math, tables, images), evidence (marks), glossary (terms),
not_compared. Files to take along: downloads, practice_zip. Paths: project. Nothing here starts a
process: distlab.spmd does.
"""
