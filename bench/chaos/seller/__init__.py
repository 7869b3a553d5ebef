"""One seller of the chaos run (`python -m bench.chaos.seller`): honest books, a wire that misbehaves.

It knows nothing of the product: what it speaks is written here anew, from AdCP's pages.
"""
