"""What the server of a study's cells imports first, before torch and the rest"""

from vit.memory import collect_seldom

collect_seldom()  # the cells, which are forked off the server, keep the setting
