"""Writes the conformance cases: programs of one operation each, their inputs, and the results of XLA:CPU.

usage: python generate.py [FAMILY ...]       (needs jax 0.10.2, numpy and ml_dtypes)

Every family is a file of `families/` and gives `data/FAMILY.jsonl.gz`. What XLA:CPU refuses to run is listed.
"""
import importlib
import sys
from pathlib import Path

from cases import write
from reference import Xla

FOLDER = Path(__file__).parent


def main():
    families = sys.argv[1:] or sorted(path.stem for path in (FOLDER / "families").glob("*.py"))
    sys.path.insert(0, str(FOLDER / "families"))
    xla = Xla()
    for family in families:
        count, refused = write(FOLDER / "data" / f"{family}.jsonl.gz", importlib.import_module(family).cases(), xla)
        print(f"{family}: {count} cases, {len(refused)} refused by XLA:CPU")
        for name, reason in refused:
            print(f"  {name}: {reason}")


if __name__ == "__main__":
    main()
