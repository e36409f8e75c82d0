"""`python -m codriver`."""

from codriver.commands.cli import main

if __name__ == "__main__":
    main()
