"""Run the command line by `python -m tamis.cli`."""

import sys

from tamis.cli.main import main

sys.exit(main())
