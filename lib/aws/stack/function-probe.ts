/** Invokes the deployed ExportPage function to ask whether it reaches the service from where it runs. */

import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { ExportError } from '../../core/errors.ts';
import type { Instant } from '../../core/model.ts';
import { type ProbeEvent, type ProbeResult, probeResultSchema } from '../../target/probe-service.ts';
import { parseJson } from '../step-functions/failure.ts';
import { type OperatorClients, operatorLambdaConfig } from './clients.ts';

/**
 * Needs lambda:InvokeFunction. Errors have the name and the message that they have in the function.
 * @throws ExportError if the function cannot be invoked or answers something else; an Error if the function fails
 */
export async function probeFromFunction(
  clients: OperatorClients,
  functionArn: string,
  exportName: string,
  since: Instant,
): Promise<ProbeResult> {
  const client = clients.open((config) => new LambdaClient({ ...config, ...operatorLambdaConfig }));
  const response = await invoke(client, functionArn, { probe: { export: exportName, since } });
  const { data } = probeResultSchema.safeParse(response);
  if (data !== undefined) return data;
  throw new ExportError(
    'ConfigurationError',
    `${functionArn} did not answer as this version does. Deploy the stack again`,
  );
}

/** What the function returns. @throws an Error with the name and the message of its error */
async function invoke(client: LambdaClient, functionArn: string, event: ProbeEvent): Promise<unknown> {
  const Payload = Buffer.from(JSON.stringify(event));
  const response = await client
    .send(new InvokeCommand({ FunctionName: functionArn, Payload }))
    .catch((cause: unknown) => {
      throw explainInvocation(cause, functionArn);
    });
  const payload = parseJson(Buffer.from(response.Payload ?? []).toString());
  if (response.FunctionError === undefined) return payload;
  const { errorType, errorMessage } = payload as { readonly errorType?: string; readonly errorMessage?: string };
  throw Object.assign(new Error(errorMessage ?? response.FunctionError), { name: errorType ?? 'Error' });
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
