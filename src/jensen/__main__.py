"""The `jensen` command as `python -m jensen`, where scripts are not on the path."""

from jensen.cli import main

if __name__ == "__main__":
    main()
