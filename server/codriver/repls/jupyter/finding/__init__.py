"""Kernels found, named and started: connection files, kernelspecs, processes, and the sessions of notebook servers."""
