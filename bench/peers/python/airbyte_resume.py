"""What the Airbyte platform does: each attempt continues from the last state that earlier attempts emitted.

Follows https://docs.airbyte.com/connector-development/cdk-python/resumable-full-refresh-stream: records before a
state have been delivered; those after it may be repeated. Each attempt writes its messages to a new file.
"""

import json
import os
import sys

script, base_url, out = sys.argv[1:4]
os.makedirs(out, exist_ok=True)
attempts = sorted(name for name in os.listdir(out) if name.startswith("messages-"))
states = []
for name in attempts:
    with open(os.path.join(out, name), encoding="utf-8") as file:
        for line in file:
            try:
                message = json.loads(line)
            except ValueError:
                # Truncated by a kill.
                continue
            if message["type"] == "STATE":
                states = [message["state"]]

stream = {
    "name": "pages",
    "json_schema": {"type": "object"},
    "supported_sync_modes": ["full_refresh"],
    "is_resumable": True,
}
catalog = {"streams": [{"stream": stream, "sync_mode": "full_refresh", "destination_sync_mode": "append"}]}
arguments = ["read"]
for option, value in (("config", {"base_url": base_url}), ("catalog", catalog), ("state", states)):
    path = os.path.join(out, f"{option}.json")
    with open(path, "w") as file:
        json.dump(value, file)
    arguments += [f"--{option}", path]

messages = os.open(os.path.join(out, f"messages-{len(attempts) + 1:04}.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
os.dup2(messages, 1)
os.execv(sys.executable, [sys.executable, script, *arguments])
