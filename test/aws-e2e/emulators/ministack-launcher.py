"""
Starts MiniStack with six patches.

Error names: on AWS, the errorType of a failed Node.js function is the error's name, which the state machine matches for
retries and catches. MiniStack reports "Runtime.HandlerError" for every error. With the patch its Node.js worker returns the
name, and the result of the invocation has it.

TLS: the stack's buckets and queues, and CDK's bucket, deny requests without TLS. The loopback interface has no TLS, so the
patch marks every request as one with TLS. All other conditions of a policy are evaluated as usual.

Batches: MiniStack ignores the ItemBatcher of a Distributed Map. With the patch, each child execution gets a batch of items,
in the form that Step Functions documents. Only MaxItemsPerBatch is honoured.

Limits and stops of a Distributed Map: MiniStack ignores MaxConcurrencyPath, and starts further child executions after the execution
was stopped. With the patch, it does neither. It still does not stop the children that are running.

Names of started executions: on AWS, a state that starts an execution whose name is taken fails with
StepFunctions.ExecutionAlreadyExistsException. MiniStack leaves out the prefix and the suffix.

Permission for batches of messages: on AWS, it is that for a single message. MiniStack expects an action sqs:SendMessageBatch.
"""

import sys
import threading

from ministack import app
from ministack.core import iam_actions, lambda_runtime
from ministack.services import lambda_svc, stepfunctions


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

run_distributed_map = stepfunctions._run_distributed_map


def run_distributed_map_in_batches(state, raw_input, effective, iterator, execution, ctx):
    if "MaxConcurrencyPath" in state:
        state = dict(state, MaxConcurrency=stepfunctions._resolve_path(state["MaxConcurrencyPath"], effective))
    if "ItemBatcher" in state:
        items = stepfunctions._read_map_items(state["ItemReader"], effective, ctx)
        size = state["ItemBatcher"]["MaxItemsPerBatch"]
        effective = [{"Items": items[start : start + size]} for start in range(0, len(items), size)]
        state = {name: state[name] for name in state if name not in ("ItemReader", "ItemBatcher")}
    return run_distributed_map(state, raw_input, effective, iterator, execution, ctx)


stepfunctions._run_distributed_map = run_distributed_map_in_batches

run_sub_machine = stepfunctions._run_sub_machine


def run_sub_machine_unless_stopped(states, start_at, input_data, execution, ctx):
    map_run = stepfunctions._map_runs.get(execution.get("mapRunArn"))
    parent = map_run and stepfunctions._executions.get(map_run["executionArn"])
    if parent and parent["status"] != "RUNNING":
        raise stepfunctions._ExecutionError("Aborted", "The execution of the Distributed Map was stopped")
    return run_sub_machine(states, start_at, input_data, execution, ctx)


stepfunctions._run_sub_machine = run_sub_machine_unless_stopped

start_nested_execution = stepfunctions._invoke_nested_start_execution


def start_nested_execution_with_error_name(*args):
    try:
        return start_nested_execution(*args)
    except stepfunctions._ExecutionError as error:
        if error.error == "ExecutionAlreadyExists":
            error.error = "StepFunctions.ExecutionAlreadyExistsException"
        raise


stepfunctions._invoke_nested_start_execution = start_nested_execution_with_error_name

action_from_target = iam_actions._action_from_target


def action_without_batch(headers):
    action = action_from_target(headers)
    return "SendMessage" if action == "SendMessageBatch" else action


iam_actions._action_from_target = action_without_batch

pin_request_origin = app.pin_request_origin
app.pin_request_origin = lambda source_ip, secure_transport: pin_request_origin(source_ip, True)

if __name__ == "__main__":
    app.main()
