"""`python -m omcal` is the command `omcal`."""

from omcal.cli import main

main()
