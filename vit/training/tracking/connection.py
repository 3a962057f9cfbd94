"""Whether a tracker can be reached: a connection to its server, and a login at Weights & Biases"""

import netrc
import os
import socket
import threading
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from vit.training.tracking.tracker import WandbMode

if TYPE_CHECKING:
    import wandb

CONNECT_SECONDS = 3.0


def intended(mode: WandbMode) -> tuple[Literal["online", "offline", "off"], str]:
    """The status that a mode asks for, and why, before any server is asked. WANDB_MODE decides only for "auto"."""
    variable = os.environ.get("WANDB_MODE") if mode == "auto" else None
    why = "as asked" if variable is None else f"WANDB_MODE={variable}"
    if mode == "off" or variable == "disabled":
        return "off", why
    if mode == "offline" or variable in ("offline", "dryrun"):
        return "offline", why
    return "online", "you are logged in" if logged_in() else "if you are logged in"


def logged_in() -> bool:
    """Whether a user is logged in to Weights & Biases. This asks no server and imports nothing."""
    server = urlsplit(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").netloc
    return bool(os.environ.get("WANDB_API_KEY")) or _in_netrc(server)


def obstacle(settings: "wandb.Settings") -> str:
    """Why online is not possible, or "". The answer takes 3 seconds at most; wandb would try for over a minute."""
    server = urlsplit(settings.base_url)
    if not (settings.api_key or settings.identity_token_file or _in_netrc(server.netloc)):
        return "not logged in, see 'wandb login'"
    return unreachable(settings.base_url)


def _in_netrc(host: str) -> bool:
    hosts = [host, "api.wandb.ai"] if host == "api.forge.coreweave.com" else [host]  # one server, renamed in 2026
    netrc_file = os.environ.get("NETRC")
    for file in [netrc_file] if netrc_file else ["~/.netrc", "~/_netrc"]:
        with suppress(OSError, netrc.NetrcParseError):
            entries = netrc.netrc(Path(file).expanduser())
            return any((entries.authenticators(each) or ("", "", ""))[2] for each in hosts)
    return False


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
