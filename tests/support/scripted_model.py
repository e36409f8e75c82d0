"""A language model that calls `evaluate_code` once and then says that it is done, for clients with a model behind them.

It speaks as much of four public interfaces as the clients need, each a function from a request to what the tool
answered so far and the events of the model's answer: Anthropic's messages, OpenAI's responses and chat completions,
and Gemini's contents.
"""

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOOL = "evaluate_code"
SAID = "the model is done"


def is_tool(name):
    """Whether a client's name for a tool, which says the server's too, is that of the tool to call."""
    return name.endswith(TOOL)


def messages(body, arguments):
    contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    results = [block["content"] for content in contents for block in content if block["type"] == "tool_result"]
    tool = next((tool["name"] for tool in body.get("tools", []) if is_tool(tool["name"])), None)
    start, delta, stop = {"type": "text", "text": ""}, {"type": "text_delta", "text": SAID}, "end_turn"
    if tool and not results:
        start = {"type": "tool_use", "id": "call", "name": tool, "input": {}}
        delta, stop = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}, "tool_use"
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": body["model"], "content": [], "usage": usage}
    return results, [
        {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


def responses(body, arguments):
    results = [item["output"] for item in body["input"] if item.get("type", "").endswith("_output")]
    # The tools of an MCP server come as a group under the server's name.
    groups = [group for group in body.get("tools", []) if any(is_tool(tool["name"]) for tool in group.get("tools", []))]
    item = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": SAID}]}
    if groups and not results:
        item = {
            "type": "function_call", "id": "f", "call_id": "call", "namespace": groups[0]["name"], "name": TOOL,
            "arguments": json.dumps(arguments),
        }  # fmt: skip
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return results, [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "usage": usage}},
    ]


def completions(body, arguments):
    results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    names = [tool["function"]["name"] for tool in body.get("tools", [])]
    tool, given = next(filter(is_tool, names), None), arguments
    if tool is None and "tool_search" in names:
        # Qwen Code keeps the tools of servers back: one is looked up first, and then called by another tool.
        deferred = re.findall(rf"\w+__{TOOL}", json.dumps(body["messages"]))
        if deferred and not results:
            tool, given = "tool_search", {"query": f"select:{deferred[0]}"}
        elif deferred:
            tool, given = "tool_call", {"name": deferred[0], "arguments": arguments}
        results = results[1:]
    delta, stop = {"role": "assistant", "content": SAID}, "stop"
    if tool and not results:
        function = {"name": tool, "arguments": json.dumps(given)}
        delta = {
            "role": "assistant",
            "tool_calls": [{"index": 0, "id": f"call-{tool}", "type": "function", "function": function}],
        }
        stop = "tool_calls"
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return results, [
        {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": usage},
    ]


def contents(body, arguments):
    parts = [part for content in body["contents"] for part in content["parts"]]
    results = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
    names = [tool["name"] for group in body.get("tools", []) for tool in group.get("functionDeclarations", [])]
    tool = next(filter(is_tool, names), None)
    part = {"functionCall": {"name": tool, "args": arguments}} if tool and not results else {"text": SAID}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return results, [{"candidates": [candidate], "usageMetadata": usage}]


INTERFACES = {
    "/messages": messages,
    "/responses": responses,
    "/chat/completions": completions,
    ":streamGenerateContent": contents,
}


class Model:
    """`url`: where it answers. `results`: what the tool answered, as the client told the model."""

    def __init__(self, arguments):
        self.results = []
        model = self

        class Answers(BaseHTTPRequestHandler):
            def log_message(self, *_):
                """Say nothing: what clients ask beside is no matter."""

            def do_POST(self):
                asked = self.rfile.read(int(self.headers["content-length"]))
                path = self.path.partition("?")[0]
                interface = next((speak for end, speak in INTERFACES.items() if path.endswith(end)), None)
                if interface is None:
                    self.send_error(404)
                    return
                results, events = interface(json.loads(asked), arguments)
                model.results += results
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                for event in events:
                    name = f"event: {event['type']}\n" if "type" in event else ""
                    self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def serving_model(arguments):
    """A model that calls the tool with `arguments`, for the length of the context."""
    model = Model(arguments)
    thread = threading.Thread(target=model.server.serve_forever)
    thread.start()
    try:
        yield model
    finally:
        model.server.shutdown()
        thread.join()
        model.server.server_close()
