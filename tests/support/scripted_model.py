"""A fake language model that calls the tools of a script, one after the other, and then says that it is done.

Without a script it calls `evaluate_code` once.

It implements as much of four public interfaces as the clients need: Anthropic's messages, OpenAI's responses and
chat completions, and Gemini's contents. Each is a function from a request to what the tools answered so far and the
events of the model's answer.
"""

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOOL = "evaluate_code"
SAID = "the model is done"


def is_tool(name, tool=TOOL):
    """Return whether a client's name for a tool, which contains the server's name, means the tool to call."""
    return name.endswith(tool)


def next_step(script, results, names):
    """Return the next tool to call, as the client calls it, and its arguments; None at the end of the script."""
    if len(results) >= len(script):
        return None
    tool, arguments = script[len(results)]
    name = tool if tool in names else next((name for name in names if is_tool(name, tool)), None)
    return name and (name, arguments)


def messages(body, script):
    contents = [message["content"] for message in body["messages"] if isinstance(message["content"], list)]
    results = [block["content"] for content in contents for block in content if block["type"] == "tool_result"]
    step = next_step(script, results, [tool["name"] for tool in body.get("tools", [])])
    start, delta, stop = {"type": "text", "text": ""}, {"type": "text_delta", "text": SAID}, "end_turn"
    if step:
        start = {"type": "tool_use", "id": f"call{len(results)}", "name": step[0], "input": {}}
        delta, stop = {"type": "input_json_delta", "partial_json": json.dumps(step[1])}, "tool_use"
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


def responses(body, script):
    results = [item["output"] for item in body["input"] if item.get("type", "").endswith("_output")]
    # The tools of an MCP server come as a group under the server's name.
    groups = [group for group in body.get("tools", []) if any(is_tool(tool["name"]) for tool in group.get("tools", []))]
    own = [tool.get("name", "") for tool in body.get("tools", []) if tool.get("type") == "custom"]
    step = next_step(script, results, [TOOL for _ in groups[:1]] + own)
    item = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": SAID}]}
    call = f"call{len(results)}"
    if step and step[0] == TOOL:
        item = {
            "type": "function_call", "id": "f", "call_id": call, "namespace": groups[0]["name"], "name": TOOL,
            "arguments": json.dumps(step[1]),
        }  # fmt: skip
    elif step:
        item = {"type": "custom_tool_call", "id": "f", "call_id": call, "name": step[0], "input": step[1]}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return results, [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "usage": usage}},
    ]


def completions(body, script):
    results = [message["content"] for message in body["messages"] if message["role"] == "tool"]
    names = [tool["function"]["name"] for tool in body.get("tools", [])]
    tool, given = next_step(script, results, names) or (None, None)
    if tool is None and "tool_search" in names and script[0][0] == TOOL:
        arguments = script[0][1]
        # Qwen Code withholds the tools of servers: one is looked up first, and then called by another tool.
        deferred = re.findall(rf"\w+__{TOOL}", json.dumps(body["messages"]))
        if deferred and not results:
            tool, given = "tool_search", {"query": f"select:{deferred[0]}"}
        elif deferred:
            tool, given = "tool_call", {"name": deferred[0], "arguments": arguments}
        results = results[1:]
        tool = None if results else tool
    delta, stop = {"role": "assistant", "content": SAID}, "stop"
    if tool:
        function = {"name": tool, "arguments": json.dumps(given)}
        delta = {
            "role": "assistant",
            "tool_calls": [{"index": 0, "id": f"call-{tool}-{len(results)}", "type": "function", "function": function}],
        }
        stop = "tool_calls"
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return results, [
        {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": usage},
    ]


def contents(body, script):
    parts = [part for content in body["contents"] for part in content["parts"]]
    results = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
    names = [tool["name"] for group in body.get("tools", []) for tool in group.get("functionDeclarations", [])]
    step = next_step(script, results, names)
    part = {"functionCall": {"name": step[0], "args": step[1]}} if step else {"text": SAID}
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
    """`url` is its address, `results` are the tools' answers as the client sent them to the model, `heard` is
    everything received.
    """

    def __init__(self, script):
        self.results, self.heard = [], []
        model = self

        class Answers(BaseHTTPRequestHandler):
            def log_message(self, *_):
                """Print nothing: other requests of clients do not matter."""

            def do_POST(self):
                requested = self.rfile.read(int(self.headers["content-length"]))
                path = self.path.partition("?")[0]
                interface = next((speak for end, speak in INTERFACES.items() if path.endswith(end)), None)
                if interface is None:
                    self.send_error(404)
                    return
                results, events = interface(json.loads(requested), script)
                model.results += results
                model.heard.append(requested.decode())
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                for event in events:
                    name = f"event: {event['type']}\n" if "type" in event else ""
                    self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def serving_model(arguments=None, *, script=()):
    """Run a model that calls `evaluate_code` with `arguments`, or the tools of `script`, for the duration of the
    context.
    """
    model = Model(script or [(TOOL, arguments)])
    thread = threading.Thread(target=model.server.serve_forever)
    thread.start()
    try:
        yield model
    finally:
        model.server.shutdown()
        thread.join()
        model.server.server_close()
