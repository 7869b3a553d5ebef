"""The documents' lifecycles are compared only where their folder is."""

from pathlib import Path

SHARED = Path(__file__).resolve().parents[3] / "shared" / "lifecycles"

collect_ignore = [] if SHARED.is_dir() else ["test_shared_lifecycles.py"]
