"""Writes programs into a folder: python programs DIR [TEXT ...]."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.dont_write_bytecode = True

import programs

if len(sys.argv) < 2:
    sys.exit(programs.__doc__)
sys.exit(1 if programs.write_programs(sys.argv[1], sys.argv[2:]) else 0)
