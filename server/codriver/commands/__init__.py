"""The command line interface, with one module per command or group of commands, imported only when used."""
