"""Three sellers' agents, each a process of its own, reached only over HTTP.

`python -m demo.sellers serve --state DIR` starts them. They sell what `catalogue.py` lists, keep their
books in SQLite under DIR, and speak AdCP 3.2 through the server side of the `adcp` package.
"""
