"""
Starts MiniStack with two patches.

Error names: on AWS, the errorType of a failed Node.js function is the error's name, which the state machine matches for
retries and catches. MiniStack reports "Runtime.HandlerError" for every error. With the patch its Node.js worker returns the
name, and the result of the invocation has it.

TLS: the stack's buckets and queues, and CDK's bucket, deny requests without TLS. The loopback interface has no TLS, so the
patch marks every request as one with TLS. All other conditions of a policy are evaluated as usual.
"""

import sys
import threading

from ministack import app
from ministack.core import lambda_runtime
from ministack.services import lambda_svc


def replace_once(text, old, new):
    if text.count(old) != 1:
        sys.exit("ministack-launcher.py cannot patch this version of MiniStack; see requirements.txt")
    return text.replace(old, new)


lambda_runtime._NODEJS_WORKER_SCRIPT = replace_once(
    lambda_runtime._NODEJS_WORKER_SCRIPT,
    'error: String(err.message || err), trace: err.stack || ""',
    'error: String(err.message || err), trace: err.stack || "", error_type: err.name',
)

invocation = threading.local()
invoke = lambda_runtime.Worker.invoke
execute_warm = lambda_svc._execute_function_warm


def invoke_and_record_error(self, *args, **kwargs):
    response = invoke(self, *args, **kwargs)
    invocation.error_type = response.get("error_type")
    return response


def execute_with_error_name(*args, **kwargs):
    invocation.error_type = None
    result = execute_warm(*args, **kwargs)
    body = result.get("body")
    if result.get("error") and invocation.error_type and body.get("errorType") == "Runtime.HandlerError":
        body["errorType"] = invocation.error_type
    return result


lambda_runtime.Worker.invoke = invoke_and_record_error
lambda_svc._execute_function_warm = execute_with_error_name

pin_request_origin = app.pin_request_origin
app.pin_request_origin = lambda source_ip, secure_transport: pin_request_origin(source_ip, True)

if __name__ == "__main__":
    app.main()
