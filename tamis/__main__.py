"""Run the command line by `python -m tamis`, as torchrun does on every rank."""

import sys

from tamis.cli.main import main

sys.exit(main())
