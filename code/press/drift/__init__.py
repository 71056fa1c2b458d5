"""What the course shows under other versions of torch, as recorded by `nox -s drift`.

    recordings  what came of every item under one version: data, files, comparison
    changes     what changed in torch, as rules that turn a later text into the pinned one
    page        tables and side-by-side outputs for the page "Still true in your version?"

An item is a fence, a program of the museum whose outcome varies, a way to start a lab, or the
solution of an exercise. Nothing here runs one: that is record.drift.
"""
