"""What was measured, kept in a file as it comes, so that a run that was stopped goes on where it was.

    {"machine": NAME, "build": DIGEST of halo's code,
     "suites": {SUITE: {THREADS: {PROGRAM: {COMPILER: {"compile_ms", "run_ms", ...} or {"error"}}}}},
     "growth": {"compile" or "run": {KIND: {COMPILER: [[SIZE, milliseconds or None], ...]}}}}
"""
import hashlib
import json
import os
import pathlib
import platform


class Results:
    def __init__(self, file=None, machine="an unknown processor", build=None):
        self.file, self.machine, self.build = file, machine, build
        self.suites, self.growth = {}, {}

    @classmethod
    def read(cls, file):
        content = json.loads(file.read_text())
        results = cls(None, content["machine"], content["build"])
        results.suites = {
            suite: {int(threads): table for threads, table in tables.items()} for suite, tables in content["suites"].items()
        }
        results.growth = content["growth"]
        return results

    @classmethod
    def start(cls, file, binary, resume):
        """New results of this machine and a build of halo, with what the file has of the same if they are to be resumed."""
        build = hashlib.sha256(pathlib.Path(binary).read_bytes()).hexdigest()[:16]
        results = cls(file, processor(), build)
        if resume and file.exists():
            old = cls.read(file)
            if (old.machine, old.build) == (results.machine, build):
                results.suites, results.growth = old.suites, old.growth
        return results

    def tables(self, suite, threads):
        """The tables of a suite by number of threads."""
        tables = self.suites.setdefault(suite, {})
        return {count: tables.setdefault(count, {}) for count in threads}

    def save(self):
        if self.file is None:
            return
        content = {"machine": self.machine, "build": self.build, "suites": self.suites, "growth": self.growth}
        part = self.file.with_name(self.file.name + ".part")
        part.write_text(json.dumps(content, indent=1) + "\n")
        os.replace(part, self.file)


def processor():
    """The name of the machine's processor."""
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
