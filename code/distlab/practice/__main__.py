"""`python -m distlab.practice`."""

import sys

from distlab.practice.cli import main

sys.exit(main())
