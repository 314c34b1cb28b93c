"""Learned task by task or all at once: the same model, at default settings, whatever the data look like.

`python -m defaults` (with `tests` on the path) runs the whole comparison and prints a table; see `sweep`.
"""
