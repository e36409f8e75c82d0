"""Behind the plain way: the only room that knows the SDK. It is imported when a client sends what needs it."""

from codriver.protocol.sdk.deferred_packages import defer

defer("mcp", "mcp.server")
