/**
 * How an operator's requests reach AWS: through the proxy in HTTPS_PROXY, except for hosts in NO_PROXY, and with the
 * certificate authorities in AWS_CA_BUNDLE. The AWS CLI reads these variables, the SDK does not.
 */

import { Agent, type RequestOptions } from 'node:https';
import type { Duplex } from 'node:stream';
import { callbackify } from 'node:util';
import { parseKnownFiles } from '@smithy/core/config';
import { describeCertificates, filePlace } from '../../settings/certificates.ts';
import { readTextFile } from '../../settings/text-file.ts';
import { proxyFromVariables } from '../../service/network/proxy-variables.ts';
import { openTunnel } from '../../service/network/tunnel.ts';
import type { Environment } from '../sdk-config.ts';

/** Ends before the SDK's own limit for a connection, whose error would not name the proxy. */
const tunnelTimeoutMs = 2_500;

/** The agent of all clients, and of those that get credentials. Endpoints with http are reached without it. */
export class AwsAgent extends Agent {
  readonly #env: Environment;
  #authorities: Promise<string | undefined> | undefined;

  constructor(env: Environment) {
    super({ keepAlive: true, maxSockets: 50 });
    this.#env = env;
  }

  /** Calls back with a ConfigurationError if a variable cannot be used, or with a ProxyError. */
  override createConnection(
    options: RequestOptions,
    callback: (error: Error | null, stream: Duplex) => void = () => {},
  ): undefined {
    const connect = async () => {
      const authority = `${options.host}:${options.port}`;
      this.#authorities ??= readAuthorities(this.#env);
      const ca = await this.#authorities;
      const proxy = proxyFromVariables(`https://${authority}`, this.#env);
      const socket = proxy && (await openTunnel(proxy, { authority, timeout: tunnelTimeoutMs, ca }));
      return super.createConnection({ ...options, ca, ...(socket && { socket }) }) as Duplex;
    };
    callbackify(connect)(callback);
  }
}

/** The text of AWS_CA_BUNDLE, or else of the `ca_bundle` of the profile. @throws ConfigurationError */
async function readAuthorities(env: Environment): Promise<string | undefined> {
  const ofProfile = async () => (await parseKnownFiles({}))[env.AWS_PROFILE || 'default']?.ca_bundle;
  const file = env.AWS_CA_BUNDLE || (await ofProfile());
  if (!file) return undefined;
  const place = filePlace(file, env.AWS_CA_BUNDLE ? 'AWS_CA_BUNDLE' : 'ca_bundle of the AWS profile');
  const text = readTextFile(file, place);
  // Throws if there is none.
  describeCertificates(text, place);
  return text;
}
