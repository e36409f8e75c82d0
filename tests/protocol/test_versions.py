"""Protocol names repeated here, so that the SDK need not be imported, equal those of the SDK."""

from typing import get_args

import mcp_types
from mcp.shared.subscriptions import LISTEN_STREAM_METHODS, SUBSCRIPTION_ID_META_KEY
from mcp_types import jsonrpc, version

from codriver.protocol import error_messages, subscriptions


def test_the_protocol_versions_match_the_sdk():
    assert tuple(version.HANDSHAKE_PROTOCOL_VERSIONS) == error_messages.HANDSHAKE_VERSIONS
    assert tuple(version.MODERN_PROTOCOL_VERSIONS) == (error_messages.MODERN,)


def test_the_meta_field_names_match_the_sdk():
    ours = (
        error_messages.VERSION_KEY,
        error_messages.CLIENT_KEY,
        error_messages.CAPABILITIES_KEY,
        error_messages.LEVEL_KEY,
    )
    theirs = (
        mcp_types.PROTOCOL_VERSION_META_KEY,
        mcp_types.CLIENT_INFO_META_KEY,
        mcp_types.CLIENT_CAPABILITIES_META_KEY,
        mcp_types.LOG_LEVEL_META_KEY,
    )
    assert ours == theirs
    assert error_messages.SERVER_KEY == mcp_types.SERVER_INFO_META_KEY
    assert error_messages.SUBSCRIPTION_KEY == SUBSCRIPTION_ID_META_KEY


def test_log_levels_error_codes_and_notification_methods_match_the_sdk():
    assert get_args(mcp_types.LoggingLevel) == error_messages.LOG_LEVELS
    names = ("PARSE_ERROR", "INVALID_REQUEST", "METHOD_NOT_FOUND", "INVALID_PARAMS", "INTERNAL_ERROR")
    assert [getattr(error_messages, name) for name in names] == [getattr(jsonrpc, name) for name in names]
    assert {method for _, method in subscriptions.LIST_CHANGES.values()} | {
        subscriptions.RESOURCE_UPDATED_METHOD
    } == LISTEN_STREAM_METHODS
