"""Whether the server of a tracker can be reached, known in seconds"""

import socket
import threading
import urllib.request
from contextlib import suppress
from urllib.parse import urlsplit

CONNECT_SECONDS = 3.0


def unreachable(url: str) -> str:
    """Why a server, or the proxy before it, cannot be reached, or "". The answer takes 3 seconds at most."""
    server = urlsplit(url)
    proxy = urllib.request.getproxies().get(server.scheme)
    if proxy and not urllib.request.proxy_bypass(server.hostname or ""):
        server = urlsplit(proxy if "//" in proxy else f"http://{proxy}")
    address = (server.hostname or "", server.port or (443 if server.scheme == "https" else 80))
    answered = threading.Event()

    def connect() -> None:
        with suppress(OSError), socket.create_connection(address, timeout=CONNECT_SECONDS):
            answered.set()

    thread = threading.Thread(target=connect, daemon=True)  # a name lookup ignores the timeout
    thread.start()
    thread.join(CONNECT_SECONDS)
    return "" if answered.is_set() else f"no connection to {server.hostname}"
