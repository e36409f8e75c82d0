"""The live screen of `codriver watch`: its board, and the terminal it is drawn on."""
