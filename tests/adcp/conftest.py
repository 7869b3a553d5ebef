"""The vectors' tests are collected only where the vectors are."""

from .vectors import VECTORS

collect_ignore = [] if VECTORS.is_dir() else ["test_vectors_extraction.py", "test_vectors_signatures.py"]
