/** Invokes the deployed ExportPage function to ask whether it reaches the service from where it runs. */

import { InvokeCommand, type InvokeCommandOutput, type LambdaClient } from '@aws-sdk/client-lambda';
import { ExportError } from '../../core/errors.ts';
import type { Instant } from '../../core/model.ts';
import { type ProbeEvent, type ProbeResult, probeResultSchema } from '../../core/operations/probe-service.ts';
import { parseJson } from '../step-functions/history.ts';

/**
 * Needs lambda:InvokeFunction. Errors have the name and the message that they have in the function.
 * @throws ExportError if the function cannot be invoked or answers something else; an Error if the function fails
 */
export async function probeFromFunction(
  client: LambdaClient,
  functionArn: string,
  exportName: string,
  since: Instant,
): Promise<ProbeResult> {
  const event: ProbeEvent = { probe: { export: exportName, since } };
  const response = await invoke(client, functionArn, event);
  const payload = parseJson(Buffer.from(response.Payload ?? []).toString());
  if (response.FunctionError === undefined) {
    const { data } = probeResultSchema.safeParse(payload);
    if (data !== undefined) return data;
    throw new ExportError(
      'ConfigurationError',
      `${functionArn} did not answer as this version does. Deploy the stack again`,
    );
  }
  const { errorType, errorMessage } = payload as { readonly errorType?: string; readonly errorMessage?: string };
  throw Object.assign(new Error(errorMessage ?? response.FunctionError), { name: errorType ?? 'Error' });
}

async function invoke(client: LambdaClient, functionArn: string, event: ProbeEvent): Promise<InvokeCommandOutput> {
  try {
    const Payload = Buffer.from(JSON.stringify(event));
    return await client.send(new InvokeCommand({ FunctionName: functionArn, Payload }));
  } catch (cause) {
    throw explainInvocation(cause, functionArn);
  }
}

function explainInvocation(cause: unknown, functionArn: string): unknown {
  if (!(cause instanceof Error)) return cause;
  if (cause.name === 'ResourceNotFoundException') {
    return new ExportError('ConfigurationError', `There is no function ${functionArn}. Deploy the stack again`, {
      cause,
    });
  }
  if (cause.name === 'TooManyRequestsException') {
    const message = `Lambda throttles ${functionArn}: as many invocations as allowed are in progress. Try again later`;
    return new ExportError('ServiceUnavailableError', message, { cause });
  }
  return cause;
}
