"""The features of Codriver, one package each. Each can be taken away: see `codriver.feature`."""
