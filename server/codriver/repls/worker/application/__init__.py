"""The worker within a running application, whose main thread, streams and loop stay its own."""
