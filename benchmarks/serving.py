"""`vit serve` under load: requests per second and waiting times, and a long run with hostile clients.

    python benchmarks/serving.py MODEL IMAGE [seconds of the long run]

Clients and service share this machine, on the loopback. Each number of clients takes turns with one client, and the
ratio of the two rates counts: other work slows both. The program ends by itself.
"""

import random
import socket
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median, quantiles

import httpx

TURNS, SECONDS, CLIENTS = 3, 8.0, (1, 8, 64)


def free_port() -> int:
    """A free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def started(model: str) -> tuple["subprocess.Popen[bytes]", int]:
    """A service and its port, when it answers."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "vit", "serve", model, "--port", str(port)])
    until = time.monotonic() + 120
    while time.monotonic() < until:
        try:
            httpx.get(f"http://127.0.0.1:{port}/health")
            return process, port
        except httpx.TransportError:
            time.sleep(0.2)
    raise TimeoutError("the service does not answer")


def load(port: int, image: bytes, clients: int, seconds: float) -> tuple[float, list[float]]:
    """Requests per second of some clients that ask again at once, and the milliseconds of each request."""
    until = time.perf_counter() + seconds

    def one(_: int) -> list[float]:
        times = []
        with httpx.Client(timeout=60) as client:
            while time.perf_counter() < until:
                began = time.perf_counter()
                client.post(f"http://127.0.0.1:{port}/predict", content=image).raise_for_status()
                times.append(1000 * (time.perf_counter() - began))
        return times

    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        times = [each for part in pool.map(one, range(clients)) for each in part]
    return len(times) / (time.perf_counter() - began), times


def hostile(port: int, image: bytes, seconds: float) -> Counter[str]:
    """Good, bad and half-sent requests until the time is over; what came of them."""
    until = time.monotonic() + seconds

    def one(seed: int) -> Counter[str]:
        draws, seen = random.Random(seed), Counter[str]()
        with httpx.Client(timeout=60) as client:
            while time.monotonic() < until:
                kind = draws.choice(("good", "good", "good", "bytes", "cut", "half"))
                if kind == "half":
                    with socket.create_connection(("127.0.0.1", port)) as half:
                        half.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n" + image[:99])
                    seen["half-sent"] += 1
                    continue
                body = {"good": image, "bytes": draws.randbytes(500), "cut": image[: len(image) // 2]}[kind]
                code = client.post(f"http://127.0.0.1:{port}/predict", content=body).status_code
                seen[f"{kind} {code}"] += 1
        return seen

    with ThreadPoolExecutor(8) as pool:
        return sum(pool.map(one, range(8)), Counter())


def resident(pid: int) -> float:
    """Memory of a process in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def main() -> None:
    """Print rates, waiting times and the long run."""
    model, image = sys.argv[1], Path(sys.argv[2]).read_bytes()
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 60.0
    process, port = started(model)
    try:
        load(port, image, 8, 3.0)
        for clients in CLIENTS:
            ratios, rates, times = [], [], []
            for _ in range(TURNS):
                alone, _ = load(port, image, 1, SECONDS)
                rate, each = load(port, image, clients, SECONDS)
                ratios.append(rate / alone)
                rates.append(rate)
                times += each
            p50, p99 = median(times), quantiles(times, n=100)[98]
            print(
                f"{clients} clients: {median(rates):.0f} requests/s, {median(ratios):.2f} times one client "
                f"({min(ratios):.2f} to {max(ratios):.2f}, {TURNS} turns), p50 {p50:.0f} ms, p99 {p99:.0f} ms",
                flush=True,
            )
        memory, seen = [resident(process.pid)], Counter[str]()
        for _ in range(6):
            seen += hostile(port, image, seconds / 6)
            memory.append(resident(process.pid))
        print(f"{seconds:.0f} s of good, hostile and half-sent requests: {dict(sorted(seen.items()))}")
        print("memory in MiB:", ", ".join(f"{one:.0f}" for one in memory))
    finally:
        process.terminate()
        print("exit code", process.wait(60))


if __name__ == "__main__":
    main()
