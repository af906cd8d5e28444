"""
Starts MiniStack as it is, but for two things.

Names of errors: on AWS the errorType of a failed Node.js function is the error's name, and the state machine decides by it
whether to try again. MiniStack says "Runtime.HandlerError" for every error, so no retry or catch by name would ever happen.
Here its Node worker passes the name on, and the result of the invocation bears it.

TLS: buckets and queues of the stack, and CDK's own bucket, refuse what does not come by TLS. On loopback there is none, so
here every request passes for one that came by TLS; all other conditions of a policy are kept as they are.
"""

import sys
import threading

from ministack import app
from ministack.core import lambda_runtime
from ministack.services import lambda_svc


def replaced(text, old, new):
    if text.count(old) != 1:
        sys.exit("This MiniStack is not the version that ministack-launcher.py knows; see requirements.txt")
    return text.replace(old, new)


lambda_runtime._NODEJS_WORKER_SCRIPT = replaced(
    lambda_runtime._NODEJS_WORKER_SCRIPT,
    'error: String(err.message || err), trace: err.stack || ""',
    'error: String(err.message || err), trace: err.stack || "", error_type: err.name',
)

invocation = threading.local()
invoke = lambda_runtime.Worker.invoke
execute_warm = lambda_svc._execute_function_warm


def invoke_and_note(self, *args, **kwargs):
    response = invoke(self, *args, **kwargs)
    invocation.error_type = response.get("error_type")
    return response


def execute_with_name(*args, **kwargs):
    invocation.error_type = None
    result = execute_warm(*args, **kwargs)
    body = result.get("body")
    if result.get("error") and invocation.error_type and body.get("errorType") == "Runtime.HandlerError":
        body["errorType"] = invocation.error_type
    return result


lambda_runtime.Worker.invoke = invoke_and_note
lambda_svc._execute_function_warm = execute_with_name

pin_request_origin = app.pin_request_origin
app.pin_request_origin = lambda source_ip, secure_transport: pin_request_origin(source_ip, True)

if __name__ == "__main__":
    app.main()
