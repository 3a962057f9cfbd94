"""What the server of a study's cells imports first, before torch and the rest"""

import signal

from vit.memory import collect_seldom

signal.signal(signal.SIGINT, signal.SIG_IGN)  # Python's server does so after its imports, and would show a traceback
collect_seldom()  # the cells, which are forked off the server, keep the setting
