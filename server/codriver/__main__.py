"""`python -m codriver`."""

from codriver.cli import main

if __name__ == "__main__":
    main()
