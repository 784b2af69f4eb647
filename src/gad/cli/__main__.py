"""``python -m gad.cli`` is ``gad``."""

from gad.cli import main

if __name__ == "__main__":
    main()
