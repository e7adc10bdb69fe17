"""Processes that compile and run programs, one for each compiler and number of threads.

`halo-bench` reads requests from its standard input. XLA's processes are forked from one that has imported JAX, since that takes
longer than most programs: each is as it would be right after the import. `xla.py` documents what both are asked.
"""
import json
import multiprocessing
import os
import pathlib
import select
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


class HaloWorker:
    """A process of `hlo-bench`."""

    def __init__(self, binary, threads, platform):
        self.process = subprocess.Popen(
            [binary, "--threads", str(threads), "--platform", platform],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )

    def ask(self, limit=None, **request):
        """The answer to a request, or {"error"}: after `limit` seconds, if given, the process is given up."""
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            if limit is not None and not select.select([self.process.stdout], [], [], limit)[0]:
                self.process.kill()
                return {"error": f"it takes longer than {limit} s"}
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if line:
            return json.loads(line)
        status = self.process.wait()
        said = self.process.stderr.read().strip().splitlines()
        return {"error": said[-1] if said else f"the process ended with status {status}"}

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended already, and its answers said so
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


class XlaWorker:
    """A process of `xla.py`."""

    context = None

    def __init__(self, threads, platform):
        if XlaWorker.context is None:
            os.environ["JAX_PLATFORMS"] = platform
            XlaWorker.context = multiprocessing.get_context("forkserver")
            XlaWorker.context.set_forkserver_preload(["xla"])
        self.connection, other = XlaWorker.context.Pipe()
        self.process = XlaWorker.context.Process(target=serve_xla, args=(other, threads, platform), daemon=True)
        self.process.start()
        other.close()

    def ask(self, limit=None, **request):
        """As `HaloWorker.ask`."""
        try:
            self.connection.send(request)
            if limit is not None and not self.connection.poll(limit):
                self.process.kill()
                return {"error": f"it takes longer than {limit} s"}
            return self.connection.recv()
        except (BrokenPipeError, ConnectionResetError, EOFError):
            self.process.join()
            return {"error": f"the process ended with status {self.process.exitcode}"}

    def close(self):
        self.connection.close()
        self.process.join()


def serve_xla(connection, threads, platform):
    """What a process of XLA does; only there JAX is imported."""
    import xla

    xla.serve(connection, threads, platform)


def starters(binary, platform):
    """What starts a worker of each compiler that has a platform, given a number of threads."""
    halo = lambda threads: HaloWorker(binary, threads, platform)
    xla = lambda threads: XlaWorker(threads, platform.split(":")[0])
    if platform == "cpu":
        return {"halo": halo, "xla": xla}
    for start, is_needed in ((halo, True), (xla, False)):
        worker = start(1)
        answer = worker.ask(command="ready")
        worker.close()
        if "error" in answer and is_needed:
            raise SystemExit(answer["error"])
    return {"halo": halo} if "error" in answer else {"halo": halo, "xla": xla}
