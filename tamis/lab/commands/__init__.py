"""The commands `tamis lab ...`: each file has HELP, EXAMPLES, add_arguments and run.

They import the experiments, and with them torch, only when they run.
"""

from tamis.lab.commands import (
    audit,
    bench,
    classes,
    fairness,
    frontier,
    late,
    regret,
    reproduce,
    suspects,
    tables,
    tracker,
    unlabelled,
)

COMMANDS = {
    "bench": bench,
    "reproduce": reproduce,
    "audit": audit,
    "regret": regret,
    "fairness": fairness,
    "tracker": tracker,
    "suspects": suspects,
    "tables": tables,
    "classes": classes,
    "unlabelled": unlabelled,
    "late": late,
    "frontier": frontier,
}
