"""The `jensen` command."""
