"""Questions to a kernel: those that any answers, and those that Python answers by modules of ours."""
